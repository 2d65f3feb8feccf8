"""What a loss returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LossOutput:
    """`total` is what is minimised, a scalar; `terms` are its parts by name, for the log."""

    total: Tensor
    terms: dict[str, Tensor]
