"""The backbone as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Dense

    from .context import RoutingContext


def apply(
    option: Dense,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Change nothing."""


def experts_by_task(option: Dense) -> None:
    """Tasks play no role."""
