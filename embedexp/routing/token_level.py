"""Token-level routing in MoTE's place: the instruction is in the text, a router reads tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .token_choice import route_tokens

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import TokenLevel

    from .context import RoutingContext


def apply(
    option: TokenLevel,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Replace the MLPs in place, for MoTE's comparison of task with token routing.

    The paper states neither k nor the router nor the balance loss: those are chosen here. That the
    instruction is prepended is up to `embedding.prompts`; a check refuses empty ones.

    Raises:
        UserError: more experts per token than experts, or a bad placement.
    """
    route_tokens(
        option, model, context, generator, top_k=option.top_k, renormalize=option.renormalize
    )


def experts_by_task(option: TokenLevel) -> None:
    """Tasks play no role."""
