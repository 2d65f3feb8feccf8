"""Balance without a loss: a bias per expert follows the load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .experts import MixtureOfExperts
from .token_choice import route_tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import LossFree

    from .context import RoutingContext


def apply(
    option: LossFree,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Replace the MLPs in place, each router with a zero bias on its selection.

    Raises:
        UserError: more experts per token than experts, or a bad placement.
    """
    route_tokens(
        option,
        model,
        context,
        generator,
        top_k=option.top_k,
        renormalize=option.renormalize,
        biased_selection=True,
    )


def experts_by_task(option: LossFree) -> None:
    """Tasks play no role."""


@torch.no_grad()
def rebalance(option: LossFree, model: nn.Module, loads: Sequence[Tensor]) -> None:
    """Move each bias by `bias_update_rate`, up where an expert got less than its share, else down.

    To be called once per optimizer step, with the `[E]` counts of the whole step over all ranks,
    one per routed layer in order (auxiliary-loss-free load balancing, arXiv 2408.15664: the sign
    of the load's error, not its size).
    """
    routers = [m for m in model.modules() if isinstance(m, MixtureOfExperts)]
    counts = torch.stack(list(loads))
    # Compared as integers: E times an expert's count against the sum, with no rounding.
    error = (counts.sum(-1, keepdim=True) - counts * counts.shape[-1]).sign()
    for router, sign in zip(routers, error, strict=True):
        assert router.selection_bias is not None
        router.selection_bias.add_(sign.to(torch.float32), alpha=option.bias_update_rate)
