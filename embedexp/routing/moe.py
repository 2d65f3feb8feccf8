"""Sparse upcycling: the MLPs of some blocks become token-routed copies of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .token_choice import route_tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import MoE

    from .context import RoutingContext


def apply(
    option: MoE,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Replace the MLPs in place (Nomic Embed v2, section 3; sparse upcycling, arXiv 2212.05055).

    Raises:
        UserError: more experts per token than experts, or a bad placement.
    """
    route_tokens(
        option, model, context, generator, top_k=option.top_k, renormalize=option.renormalize
    )


def experts_by_task(option: MoE) -> None:
    """Tasks play no role."""
