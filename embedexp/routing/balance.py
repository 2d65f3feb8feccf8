"""Load balancing: how unevenly routers spread tokens over experts, and how large their logits get.

Packed batches hold real tokens only, so there is no padding to leave out of any of these means.
"""

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
    so that layers cannot cancel each other's imbalance. Every row counts: a caller with padded
    batches drops the padding's rows before (packed batches have none).
    """
    loads = [
        assignment.flatten().bincount(minlength=probability.shape[-1])
        for probability, assignment in zip(probabilities, assignments, strict=True)
    ]
    means = [probability.mean(0) for probability in probabilities]
    return balance(means, loads, normalization=normalization)


def balance(
    means: Sequence[Tensor], loads: Sequence[Tensor], *, normalization: Literal["switch", "printed"]
) -> Tensor:
    """`load_balancing_loss` from each layer's mean probabilities and its experts' loads, `[E]`.

    Linear in `means`: with sums over some rows, divided by the number of all, and the loads of all,
    it is the part of the loss that those rows contribute.
    """
    layers = []
    for mean, load in zip(means, loads, strict=True):
        layer = ((load / load.sum()).to(mean.dtype) * mean).sum()
        layers.append(layer * mean.shape[-1] if normalization == "switch" else layer)
    return torch.stack(layers).mean()


def z_loss(logits: Sequence[Tensor]) -> Tensor:
    """The mean over layers and rows of logsumexp(logits)^2, logits one `[t, E]` per layer.

    It keeps logits small, and so their softmax exact in low precision (ST-MoE, arXiv 2202.08906).
    megablocks takes the same mean per layer, but leaves the layers unsummed.
    """
    return torch.stack([layer.logsumexp(-1).square().mean() for layer in logits]).mean()
