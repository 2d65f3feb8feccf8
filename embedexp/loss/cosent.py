"""CoSENT: scored pairs in the right order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .output import LossOutput
from .precision import at_least_float32, exact, unit

if TYPE_CHECKING:
    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import CoSENT


@exact
def cosent(scores: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """log(1 + sum over pairs with label_i < label_j of e^(scale (score_i - score_j))), a scalar.

    `scores [n]` are cosines, `labels [n]` any numbers; equal labels are not compared, and all equal
    labels give exactly 0. Sorted by label, the inner sum over i is a running logsumexp, so the cost
    is O(n log n) in time and O(n) in memory. Arithmetic is in float32 at least.

    Source: Conan-embedding-v2, equation 2; the form of Su (2022).
    """
    scores = at_least_float32(scores)
    labels, order = labels.sort()
    scaled = scale * scores[order]
    lower = torch.searchsorted(labels, labels, right=False)  # how many labels are strictly smaller
    has_lower = lower > 0
    if not has_lower.any():
        return (scaled * 0).sum()
    running = scaled.logcumsumexp(0)
    terms = running[lower[has_lower] - 1] - scaled[has_lower]
    return F.softplus(terms.logsumexp(0))


class CoSENTLoss(nn.Module):
    """CoSENT over a training batch of scored pairs."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Loss of `vectors [2q, d]`, the embeddings of `batch.tokens`; needs `batch.scores`."""
        if batch.scores is None:
            raise ValueError("CoSENT needs scored pairs")
        first, second, _, _ = batch.split(vectors)
        value = cosent((unit(first) * unit(second)).sum(-1), batch.scores, self.scale)
        return LossOutput(value, {"cosent": value})


def build(option: CoSENT) -> CoSENTLoss:
    """The loss of `loss=cosent`."""
    return CoSENTLoss(option.scale)
