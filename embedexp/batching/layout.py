"""Which rank embeds which sequences of a global batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Layout:
    """The n sequences of a global batch, in its order, and the `world` ranks that share them.

    `lengths [n]` are tokens, `owners [n]` the rank that embeds each; a rank keeps the batch's
    order among its own, and may own none.
    """

    rank: int
    world: int
    lengths: NDArray[np.int64]
    owners: NDArray[np.int64]

    @classmethod
    def single(cls, lengths: NDArray[np.int64]) -> Layout:
        """Of one process, which owns all."""
        return cls(0, 1, lengths, np.zeros(len(lengths), np.int64))

    @property
    def tokens(self) -> int:
        """Tokens of all ranks."""
        return int(self.lengths.sum())

    def members(self, rank: int) -> NDArray[np.int64]:
        """The sequences of a rank, ascending."""
        return np.flatnonzero(self.owners == rank)


def shares(weights: NDArray[np.int64], world: int) -> NDArray[np.int64]:
    """The rank of each item, `[k]`: consecutive shares of weights as even as can be.

    A rank's share ends where the running sum is nearest to its part of the whole, so that a share
    may be empty, but not another's that much too large.
    """
    ends = weights.cumsum()
    middles = ends - weights / 2
    total = max(int(ends[-1]), 1) if len(ends) else 1
    return np.minimum((middles * world / total).astype(np.int64), world - 1)


def shares_by_task(
    weights: NDArray[np.int64], tasks: Sequence[str], world: int
) -> NDArray[np.int64]:
    """The rank of each example, `[q]`, with no rank between two runs of a task.

    Each run of examples of one task gets ranks of its own, in proportion to its weights (at
    least one), as in the cross-GPU batches of Conan-embedding; with more runs than ranks, or one
    run, examples are shared out as they come.
    """
    names = np.asarray(tasks)
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]]) if len(names) else names[:0]
    if not 1 < len(starts) <= world:
        return shares(weights, world)
    bounds = [*starts.tolist(), len(names)]
    sums = np.add.reduceat(weights, starts).astype(np.float64)
    ranks = np.ones(len(starts), np.int64)
    for _ in range(world - len(starts)):  # the next rank goes where ranks have most to do
        ranks[np.argmax(sums / ranks)] += 1
    owners = np.empty(len(names), np.int64)
    first = np.cumsum(ranks) - ranks
    for i, (start, stop) in enumerate(pairwise(bounds)):
        owners[start:stop] = first[i] + shares(weights[start:stop], int(ranks[i]))
    return owners
