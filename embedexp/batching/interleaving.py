"""Draws from several sources in exact proportion, with random access."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from .permutation import permute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_LONGEST_CYCLE = 4096


def _quotas(weights: Sequence[float]) -> list[int]:
    """Draws per cycle: the exact ratio where it is short, else rounded to the longest cycle."""
    shares = [Fraction(weight).limit_denominator(10_000) for weight in weights]
    if any(share < 0 for share in shares) or not any(shares):
        raise ValueError(f"weights must be non-negative and not all zero, not {list(weights)}")
    scale = lcm(*(share.denominator for share in shares))
    counts = [int(share * scale) for share in shares]
    divisor = gcd(*counts)
    counts = [count // divisor for count in counts]
    total = sum(counts)
    if total <= _LONGEST_CYCLE:
        return counts
    exact = [Fraction(count * _LONGEST_CYCLE, total) for count in counts]
    rounded = [max(int(value), int(value > 0)) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: int(exact[i]) - exact[i])
    for i in by_remainder[: max(0, _LONGEST_CYCLE - sum(rounded))]:
        rounded[i] += 1
    return rounded


class Interleaving:
    """Which source position p of a stream draws from, and which of that source's draws it is.

    Every cycle of draws holds each source exactly in proportion to its weight, in an order shuffled
    by (key, cycle), so that no stretch of training misses a source. O(1) in the position.
    """

    def __init__(self, weights: Sequence[float], key: int) -> None:
        quotas = np.array(_quotas(weights), dtype=np.int64)
        self._quotas, self._key = quotas, key
        self._ends = quotas.cumsum()
        self._cycle = int(self._ends[-1])

    def __call__(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`(sources, draws)` of `positions`: source indices, and 0-based counts in each source."""
        cycles, offsets = np.divmod(positions, self._cycle)
        slots = np.empty_like(offsets)
        for cycle in np.unique(cycles):
            here = cycles == cycle
            slots[here] = permute(offsets[here], self._cycle, self._key ^ int(cycle))
        sources = np.searchsorted(self._ends, slots, side="right").astype(np.int64)
        starts = self._ends[sources] - self._quotas[sources]
        return sources, cycles * self._quotas[sources] + slots - starts
