"""Who may attend to whom: causal, bidirectional, and the way from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest
from embedexp.config.options import implementation

from .schedule import MaskSchedule
from .weights import FORMS, soft_weights

if TYPE_CHECKING:
    from torch import Tensor

    from embedexp.config.schema.mask_schedule import MaskSchedule as Option

__all__ = ["FORMS", "SCHEDULES", "MaskSchedule", "build", "soft_mask"]

SCHEDULES = ("linear", "accelerating", "decelerating")
"""Options whose mask opens gradually."""


def build(option: Option) -> MaskSchedule:
    """The schedule that an option of the group describes."""
    schedule: MaskSchedule = implementation("mask_schedule", option.name).build(option)
    return schedule


def soft_mask(
    length: int, progress: float, schedule: str = "linear", form: str = "column"
) -> Tensor:
    """The soft mask of a sequence: weights in [0, 1] of key j (column) for query i, `[l, l]`.

    `progress` in [0, 1] is the share of training done; the schedule makes it the mask's alpha.
    Past and present are always 1, the future min(1, alpha c_ij) (Conan-embedding-v2, soft mask).
    `form` is the reading of c_ij, with 1-based i < j: column l/j, row l/i, printed (l-i)/(l-j),
    literal i/l, which never opens fully.

    Raises:
        UserError: unknown schedule or form, or progress outside [0, 1].
    """
    for name, value, known in (("schedule", schedule, SCHEDULES), ("form", form, tuple(FORMS))):
        if value not in known:
            close = nearest(value, known)
            raise UserError(
                f"unknown {name} of the soft mask: {value}",
                hint=f"did you mean {close}?" if close else f"choose from: {', '.join(known)}",
            )
    if not 0 <= progress <= 1:
        raise UserError(f"progress is a share of training, in [0, 1], not {progress}")
    alpha = implementation("mask_schedule", schedule).alpha_at(progress)
    return soft_weights(length, alpha, form)
