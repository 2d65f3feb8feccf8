"""Switch routing: one expert per token, weighted by its probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .token_choice import route_tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Switch

    from .context import RoutingContext


def apply(
    option: Switch,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Replace the MLPs in place by copies of which each token meets one (Switch Transformer).

    Raises:
        UserError: a bad placement.
    """
    route_tokens(option, model, context, generator, top_k=1, renormalize=option.renormalize)


def experts_by_task(option: Switch) -> None:
    """Tasks play no role."""
