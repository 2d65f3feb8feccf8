"""Every token sees its whole sequence, from the first step on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .schedule import Mask, MaskSchedule
from .weights import soft_weights

if TYPE_CHECKING:
    from torch import Tensor

    from embedexp.config.schema.mask_schedule import Bidirectional as Option


class Bidirectional(MaskSchedule):
    """All weights are 1, whatever alpha."""

    final: ClassVar[float] = 1.0

    def progress(self, step: float, total: int) -> float:
        """Always 1."""
        return 1.0

    def weights(self, length: int | Tensor, alpha: float) -> Tensor:
        """Ones."""
        return soft_weights(length, 1.0, "column")

    def mask(self, alpha: float) -> Mask:
        """Nothing is closed."""
        return "bidirectional"


def build(option: Option) -> MaskSchedule:
    """The schedule of this option."""
    return Bidirectional()
