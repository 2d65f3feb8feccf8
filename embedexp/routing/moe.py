"""Sparse upcycling: the MLPs of some blocks become token-routed copies of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .experts import MixtureOfExperts
from .placement import replace, routed_blocks

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
    if option.top_k > option.num_experts:
        raise UserError(
            f"routing.top_k={option.top_k} is more than routing.num_experts={option.num_experts}",
            hint="a token can meet each expert once",
        )
    for layer, block, family in routed_blocks(model, option.placement):
        replace(
            block,
            family.mlp,
            lambda dense, layer=layer: MixtureOfExperts(  # type: ignore[misc]
                dense,
                model.config.hidden_size,
                num_experts=option.num_experts,
                top_k=option.top_k,
                renormalize=option.renormalize,
                router_std=option.router_std,
                layer=layer,
                context=context,
                generator=generator,
            ),
        )
        context.watch(block)


def experts_by_task(option: MoE) -> None:
    """Tasks play no role."""
