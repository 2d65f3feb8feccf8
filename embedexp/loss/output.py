"""What a loss returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

GAUGES = ("temperature",)
"""Terms that are worth a line in the log and no part of the loss."""


@dataclass(frozen=True)
class LossOutput:
    """`total` is what is minimised, a scalar; `terms` are its parts by name, for the log."""

    total: Tensor
    terms: dict[str, Tensor]
