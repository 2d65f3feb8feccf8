"""What is learned from a batch of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.options import implementation
from embedexp.config.schema.loss import InfoNCE

from .angle import angle_similarity
from .cosent import cosent
from .distillation import distillation
from .infonce import info_nce
from .matryoshka import matryoshka, wrap
from .output import LossOutput

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "LossOutput",
    "angle_similarity",
    "build",
    "cosent",
    "distillation",
    "info_nce",
    "matryoshka",
]


def build(option: Any) -> nn.Module:
    """The loss module of a `loss` option: `(vectors [2q+m, d], TrainingBatch) -> LossOutput`.

    Published sets of values of InfoNCE have names of their own and the same module.
    """
    name = "infonce" if isinstance(option, InfoNCE) else option.name
    module: nn.Module = implementation("loss", name).build(option)
    widths = getattr(option, "matryoshka", None)
    return module if widths is None else wrap(module, widths)
