"""The soft mask, whatever the pace at which it opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .schedule import Mask, MaskSchedule
from .weights import soft_weights

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass(frozen=True)
class SoftMask(MaskSchedule):
    """The future opens from nothing; how, `form` says (see `embedexp.mask_schedule.soft_mask`).

    `alpha_at` is alpha at a share of training in [0, 1]; it runs from 0 to 1 and never falls.
    """

    form: str
    alpha_at: Callable[[float], float]
    final: ClassVar[float] = 1.0

    def progress(self, step: float, total: int) -> float:
        """Alpha at the share of steps done, which is at most 1."""
        return self.alpha_at(min(1.0, max(0, step) / max(1, total)))

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
