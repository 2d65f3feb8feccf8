"""What every mask schedule offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from .weights import log_bias

Mask = Literal["bidirectional", "causal"] | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class MaskSchedule(ABC):
    """Attention weights as a function of alpha: 0 is causal, 1 as open as the schedule gets."""

    final: ClassVar[float]
    """Alpha after training, and the one that inference uses."""

    @abstractmethod
    def progress(self, step: float, total: int) -> float:
        """Alpha in [0, 1] at a step (from 0) of so many."""

    @abstractmethod
    def weights(self, length: int | Tensor, alpha: float) -> Tensor:
        """Weights in [0, 1]: `[l, l]` for one length, `[n, l, l]` for lengths `[n]`."""

    def bias(self, length: int | Tensor, alpha: float) -> Tensor:
        """The weights as an additive log-mask before the softmax, -inf where closed."""
        return log_bias(self.weights(length, alpha))

    def mask(self, alpha: float) -> Mask:
        """What attention needs: the name of a plain mask, or the bias by lengths `[n]`."""
        return lambda lengths: self.bias(lengths, alpha)
