"""What is learned from a batch of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.options import implementation

from .cosent import cosent
from .infonce import info_nce
from .output import LossOutput

if TYPE_CHECKING:
    from torch import nn

__all__ = ["LossOutput", "build", "cosent", "info_nce"]


def build(option: Any) -> nn.Module:
    """The loss module of a `loss` option: `(vectors [2q+m, d], TrainingBatch) -> LossOutput`."""
    module: nn.Module = implementation("loss", option.name).build(option)
    return module
