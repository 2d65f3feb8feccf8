"""The soft mask that opens fast at first (Conan-embedding-v2's decelerating schedule)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .soft import SoftMask

if TYPE_CHECKING:
    from embedexp.config.schema.mask_schedule import Decelerating as Option


def alpha_at(progress: float) -> float:
    """Alpha at a share of training: alpha(t) = 1 - (1 - t / tau)^2."""
    return 1 - (1 - progress) ** 2


def build(option: Option) -> SoftMask:
    """The schedule of this option."""
    return SoftMask(option.form, alpha_at)
