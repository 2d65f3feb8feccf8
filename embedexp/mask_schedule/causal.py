"""Every token sees itself and what came before, to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .schedule import Mask, MaskSchedule
from .weights import soft_weights

if TYPE_CHECKING:
    from torch import Tensor

    from embedexp.config.schema.mask_schedule import Causal as Option


class Causal(MaskSchedule):
    """The future has weight 0, whatever alpha."""

    final: ClassVar[float] = 0.0

    def progress(self, step: float, total: int) -> float:
        """Always 0."""
        return 0.0

    def weights(self, length: int | Tensor, alpha: float) -> Tensor:
        """Ones on and below the diagonal."""
        return soft_weights(length, 0.0, "column")

    def mask(self, alpha: float) -> Mask:
        """The future is closed."""
        return "causal"


def build(option: Option) -> MaskSchedule:
    """The schedule of this option."""
    return Causal()
