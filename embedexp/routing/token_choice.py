"""What all options have in common in which each token chooses its experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from embedexp.config.errors import UserError

from .experts import MixtureOfExperts
from .placement import replace, routed_blocks

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Router

    from .context import RoutingContext


def route_tokens(
    option: Router,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None,
    *,
    top_k: int,
    renormalize: Literal["none", "topk", "function_preserving"],
    biased_selection: bool = False,
) -> None:
    """Replace the MLPs of the routed blocks by routed copies, in place.

    Raises:
        UserError: more experts per token than experts, or a bad placement.
    """
    if top_k > option.num_experts:
        raise UserError(
            f"routing.top_k={top_k} is more than routing.num_experts={option.num_experts}",
            hint="a token can meet each expert once",
        )
    for layer, block, family in routed_blocks(model, option.placement):
        replace(
            block,
            family.mlp,
            lambda dense, layer=layer: MixtureOfExperts(  # type: ignore[misc]
                dense,
                model.config.hidden_size,
                option,
                top_k=top_k,
                renormalize=renormalize,
                biased_selection=biased_selection,
                layer=layer,
                context=context,
                generator=generator,
            ),
        )
        context.watch(block)
