"""The soft mask that opens slowly at first (Conan-embedding-v2's accelerating schedule)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .soft import SoftMask

if TYPE_CHECKING:
    from embedexp.config.schema.mask_schedule import Accelerating as Option


def alpha_at(progress: float) -> float:
    """Alpha at a share of training: alpha(t) = (t / tau)^2."""
    return progress**2


def build(option: Option) -> SoftMask:
    """The schedule of this option."""
    return SoftMask(option.form, alpha_at)
