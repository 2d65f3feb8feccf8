"""The soft mask of Conan-embedding-v2: alpha grows in proportion to the steps done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .soft import SoftMask

if TYPE_CHECKING:
    from embedexp.config.schema.mask_schedule import Linear as Option


def alpha_at(progress: float) -> float:
    """Alpha at a share of training: alpha(t) = t / tau."""
    return progress


def build(option: Option) -> SoftMask:
    """The schedule of this option."""
    return SoftMask(option.form, alpha_at)
