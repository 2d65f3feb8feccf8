"""AnglE: scored pairs in the right order, by an angle in the complex plane beside the cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional as F

from .cosent import cosent
from .output import LossOutput
from .precision import exact, unit

if TYPE_CHECKING:
    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import Angle


@exact
def angle_similarity(first: Tensor, second: Tensor) -> Tensor:
    """|cos + sin| of pairs `[n, d]` and `[n, d]`, as `[n]`.

    The two halves of a vector are the real and the imaginary parts of complex numbers; sin is the
    sum of the imaginary parts of first times the conjugate of second, on vectors of length 1. An
    odd width gets a zero.

    Source: AnglE (Li and Li 2023), as sentence-transformers' `pairwise_angle_sim` has it.
    """
    first, second = unit(first), unit(second)
    if first.shape[1] % 2:
        first, second = F.pad(first, (0, 1)), F.pad(second, (0, 1))
    real, imaginary = first.chunk(2, dim=1)
    other_real, other_imaginary = second.chunk(2, dim=1)
    sine = (imaginary * other_real - real * other_imaginary).sum(1)
    return ((first * second).sum(1) + sine).abs()


class AngleLoss(nn.Module):
    """CoSENT's ranking of a training batch of scored pairs by their angle similarity."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Loss of `vectors [2q, d]`, the embeddings of `batch.tokens`; needs `batch.scores`."""
        if batch.scores is None:
            raise ValueError("AnglE needs scored pairs")
        first, second, _, _ = batch.split(vectors)
        value = cosent(angle_similarity(first, second), batch.scores, self.scale)
        return LossOutput(value, {"angle": value})


def build(option: Angle) -> AngleLoss:
    """The loss of `loss=angle`."""
    return AngleLoss(option.scale)
