"""Load balancing: how unevenly routers spread tokens over experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def load_balancing_loss(
    probabilities: Sequence[Tensor],
    assignments: Sequence[Tensor],
    *,
    normalization: Literal["switch", "printed"],
) -> Tensor:
    """The mean over layers of sum_e f_e P_e, times the number of experts with `switch`.

    `probabilities` is one `[t, E]` per layer, over all experts; `assignments` one `[t, k]` of
    expert indices. f_e is the share of the t k assignments that expert e got, P_e the mean
    probability it was given; gradients flow through P alone. With `switch` a balanced layer
    counts 1 (Switch Transformer, equation 4; megablocks' batched loss with weight 1), with
    `printed`, the form without E, 1/E. The product is taken per layer, not over layers pooled,
    so that layers cannot cancel each other's imbalance.
    """
    layers = []
    for probability, assignment in zip(probabilities, assignments, strict=True):
        experts = probability.shape[-1]
        share = assignment.flatten().bincount(minlength=experts) / assignment.numel()
        layer = (share.to(probability.dtype) * probability.mean(0)).sum()
        layers.append(layer * experts if normalization == "switch" else layer)
    return torch.stack(layers).mean()
