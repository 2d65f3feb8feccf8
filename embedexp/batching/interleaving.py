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

_BLOCK = 4096  # positions among which every source has its share, give or take one
_MOST_BLOCKS = 4096  # of a cycle, which holds the shares exactly
_TOLERANCE = 0.01  # relative error of a share that makes a cycle long enough


def _quotas(weights: Sequence[float]) -> tuple[list[int], int]:
    """Draws of each source per cycle, and the blocks of a cycle.

    The exact ratio where it is short. Else as many blocks as give every share to a hundredth, a
    power of two; a share below one in thirty million is rounded up to one draw in a cycle.
    """
    if any(weight < 0 for weight in weights) or not any(weights):
        raise ValueError(f"weights must be non-negative and not all zero, not {list(weights)}")
    shares = [Fraction(weight).limit_denominator(10_000) for weight in weights]
    if all(share > 0 for share, weight in zip(shares, weights, strict=True) if weight > 0):
        scale = lcm(*(share.denominator for share in shares))
        counts = [int(share * scale) for share in shares]
        divisor = gcd(*counts)
        if sum(counts) // divisor <= _BLOCK:
            return [count // divisor for count in counts], 1
    exact = [Fraction(weight) for weight in weights]
    unit = sum(exact)
    blocks = 1
    while True:
        wanted = [share * blocks * _BLOCK / unit for share in exact]
        counts = _rounded(wanted, blocks * _BLOCK)
        close = all(
            abs(count - share) <= _TOLERANCE * share
            for count, share in zip(counts, wanted, strict=True)
        )
        if close or blocks == _MOST_BLOCKS:
            return counts, blocks
        blocks *= 2


def _rounded(wanted: Sequence[Fraction], total: int) -> list[int]:
    """Whole numbers of the given sum by largest remainder, at least 1 for what is not 0."""
    counts = [max(int(value), int(value > 0)) for value in wanted]
    by_remainder = sorted(range(len(wanted)), key=lambda i: counts[i] - wanted[i])
    for i in by_remainder[: max(0, total - sum(counts))]:
        counts[i] += 1
    while (excess := sum(counts) - total) > 0:  # many that were rounded up to 1
        largest = max(range(len(counts)), key=lambda i: counts[i])
        counts[largest] -= min(excess, max(1, counts[largest] // 2))
    return counts


class Interleaving:
    """Which source position p of a stream draws from, and which of that source's draws it is.

    Every cycle of draws holds each source exactly in proportion to its weight, in an order shuffled
    by (key, cycle), so that no stretch of training misses a source. A cycle of several blocks is
    stratified: each block has one draw from each of the equal stretches of the quotas, so that its
    shares are those of the cycle too. O(1) in the position.
    """

    def __init__(self, weights: Sequence[float], key: int) -> None:
        counts, self._blocks = _quotas(weights)
        quotas = np.array(counts, dtype=np.int64)
        self._quotas, self._key = quotas, key
        self._ends = quotas.cumsum()
        self._cycle = int(self._ends[-1])
        self._drawn: tuple[int, NDArray[np.int64], NDArray[np.int64]] | None = None

    def __call__(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`(sources, draws)` of `positions`: source indices, and 0-based counts in each source."""
        length = self._cycle // self._blocks
        numbers, offsets = np.divmod(positions, length)
        slots = permute(offsets, length, np.uint64(self._key) ^ numbers.astype(np.uint64))
        cycles, blocks = np.divmod(numbers, self._blocks)
        if self._blocks > 1:
            slots = slots * self._blocks + self._within(slots, cycles, blocks)
        sources = np.searchsorted(self._ends, slots, side="right").astype(np.int64)
        starts = self._ends[sources] - self._quotas[sources]
        return sources, cycles * self._quotas[sources] + slots - starts

    def at(self, position: int) -> tuple[int, int]:
        """The source and the draw of one position; drawn a block at a time (see `Batches`)."""
        first = position - position % _BLOCK
        if self._drawn is None or self._drawn[0] != first:
            self._drawn = first, *self(np.arange(first, first + _BLOCK))
        _, sources, draws = self._drawn
        return int(sources[position - first]), int(draws[position - first])

    def _within(
        self, strata: NDArray[np.int64], cycles: NDArray[np.int64], blocks: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Which place of its stratum a block takes: each block another, evenly spread over time.

        The number of the block with its bits reversed (van der Corput), turned by an amount that
        is the stratum's own.
        """
        bits = self._blocks.bit_length() - 1
        reversed_bits = np.zeros_like(blocks)
        for bit in range(bits):
            reversed_bits |= ((blocks >> bit) & 1) << (bits - 1 - bit)
        keys = ~np.uint64(self._key) ^ cycles.astype(np.uint64)
        return (reversed_bits + permute(strata, _BLOCK, keys)) % self._blocks
