"""The soft mask of Conan-embedding-v2: alpha grows in proportion to the steps done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .schedule import Mask, MaskSchedule
from .weights import soft_weights

if TYPE_CHECKING:
    from torch import Tensor

    from embedexp.config.schema.mask_schedule import Linear as Option


def alpha_at(progress: float) -> float:
    """Alpha at a share of training: alpha(t) = t / tau."""
    return progress


@dataclass(frozen=True)
class Linear(MaskSchedule):
    """The future opens from nothing; how, `form` says (see `embedexp.mask_schedule.soft_mask`)."""

    form: str
    final: ClassVar[float] = 1.0

    def progress(self, step: int, total: int) -> float:
        """The share of steps done, at most 1."""
        return alpha_at(min(1.0, max(0, step) / max(1, total)))

    def weights(self, length: int | Tensor, alpha: float) -> Tensor:
        """See `embedexp.mask_schedule.soft_mask`."""
        return soft_weights(length, alpha, self.form)

    def mask(self, alpha: float) -> Mask:
        """Plain causal at 0; plain bidirectional at 1, but for the form that never opens fully."""
        if alpha <= 0:
            return "causal"
        if alpha >= 1 and self.form != "literal":
            return "bidirectional"
        return super().mask(alpha)


def build(option: Option) -> MaskSchedule:
    """The schedule of this option."""
    return Linear(form=option.form)
