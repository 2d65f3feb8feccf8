"""Hard negatives that are replaced during training, once the model tells them apart too well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Rule:
    """When a hard negative with the score S now and the score F when it was new is replaced.

    If F is below `floor` (in the step in which it is new), or if `factor` x S < F and
    |S| < `ceiling`. With `whole_set`, S and F are means over the example's negatives, which are
    replaced together. An example is judged at its first visit in every `every` steps.

    Source: Conan-embedding-v2, equation 6 (factor 1.2, ceiling 0.7, floor 0.4, one by one, in each
    step); Conan-embedding v1 (factor 1.15, ceiling 0.8, no floor, whole sets, every 100 steps).
    """

    factor: float
    ceiling: float
    floor: float | None
    whole_set: bool
    every: int

    def outdated(self, now: NDArray[np.float32], first: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Which negatives are to be replaced, from scores of the same shape."""
        easier = (self.factor * now < first) & (np.abs(now) < self.ceiling)
        return easier if self.floor is None else easier | (first < self.floor)


@dataclass(frozen=True)
class Observed:
    """What a step saw: `hardness` is the mean score of its negatives, NaN without any.

    `judged` negatives were compared, `replaced` of them have a successor from the next visit on,
    and `exhausted` were to be replaced but stay, since their candidates are used up.
    """

    hardness: float
    judged: int
    replaced: int
    exhausted: int


class _Pool:
    """The candidates of one dataset's examples: which are in use, and how they began.

    Memory is taken by visited examples alone: untouched pages of zeros are never resident.
    """

    def __init__(self, candidates: NDArray[np.int64], count: int, skip: int) -> None:
        size, width = candidates.shape
        self.candidates, self.skip = candidates, skip
        self.slots = min(count, max(0, width - skip))
        self.moves = np.zeros((size, self.slots), np.int16)  # column - (skip + slot)
        self.first = np.zeros((size, self.slots), np.float32)
        self.seen = np.zeros((size, self.slots), np.bool_)  # whether `first` holds a score
        self.used = np.zeros(size, np.int16)  # candidates taken beyond the first `slots`
        self.judged = np.zeros(size, np.int64)  # the last judged period of steps, from 1

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of the candidates in use, `[k, slots]`."""
        starts = self.skip + np.arange(self.slots)
        found: NDArray[np.int64] = starts + self.moves[rows].astype(np.int64)
        return found

    def available(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many unused candidates each example still has, `[k]`."""
        total = (self.candidates[rows] >= 0).sum(1)
        left: NDArray[np.int64] = total - self.skip - self.slots - self.used[rows]
        return np.maximum(left, 0)


class DynamicNegatives:
    """The hard negatives in use, of every example of every dataset, as training changes them.

    Each example has a list of candidates, from near to far as its teacher ranked them. The first
    `skip` are never used, the next `count` are its negatives at first. A replaced one is followed
    by the first unused candidate of the list; an example whose candidates are used up keeps what it
    has. The score that counts as a new negative's first is that of its own first visit, in which a
    floor may reject it at once. A replacement takes effect at the example's next visit.

    All ranks see the scores of the global batch, and so all hold the same state.
    """

    def __init__(
        self, candidates: Sequence[NDArray[np.int64]], rule: Rule, *, count: int, skip: int
    ) -> None:
        self.rule = rule
        self.pools = [_Pool(ids, count, skip) for ids in candidates]

    def choose(self, dataset: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Columns of the candidates of examples `rows [k]` to use now, `[k, h]`.

        A column may hold no document (-1 among the candidates) where an example has few.
        """
        return self.pools[dataset].columns(rows)

    def observe(
        self,
        examples: NDArray[np.int64],
        scores: NDArray[np.float32],
        present: NDArray[np.bool_],
        step: int,
    ) -> Observed:
        """Judge the negatives of a step by its cosines, and replace those that are outdated.

        `examples [q, 2]` are dataset and row, `scores [q, h]` the cosines of queries with their own
        hard negatives in the order of `choose`, `present [q, h]` which of them exist; `step` is
        0-based. An example that stands in the batch twice is judged once.
        """
        judged = replaced = exhausted = 0
        for dataset in np.unique(examples[:, 0]):
            here = np.flatnonzero(examples[:, 0] == dataset)
            _, once = np.unique(examples[here, 1], return_index=True)
            here = here[once]
            pool = self.pools[int(dataset)]
            if pool.slots == 0:
                continue
            counts = self._judge(
                pool,
                examples[here, 1],
                scores[here, : pool.slots],
                present[here, : pool.slots],
                step,
            )
            judged, replaced, exhausted = (
                a + b for a, b in zip((judged, replaced, exhausted), counts, strict=True)
            )
        hardness = float(scores[present].mean()) if present.any() else float("nan")
        return Observed(hardness, judged, replaced, exhausted)

    def _judge(
        self,
        pool: _Pool,
        rows: NDArray[np.int64],
        scores: NDArray[np.float32],
        present: NDArray[np.bool_],
        step: int,
    ) -> tuple[int, int, int]:
        new = present & ~pool.seen[rows]
        first = np.where(new, scores, pool.first[rows])
        pool.first[rows], pool.seen[rows] = first, pool.seen[rows] | present
        period = step // self.rule.every + 1
        due = pool.judged[rows] < period
        pool.judged[rows[due]] = period
        judged = present & due[:, None]
        if self.rule.whole_set:
            held = judged.any(1)
            divisor = np.maximum(present.sum(1), 1)
            now_mean = np.where(present, scores, 0).sum(1) / divisor
            first_mean = np.where(present, first, 0).sum(1) / divisor
            outdated = (held & self.rule.outdated(now_mean, first_mean))[:, None] & judged
        else:
            outdated = judged & self.rule.outdated(scores, first)
        wanted = outdated.sum(1)
        free = pool.available(rows)
        # A set is replaced as a whole or not at all; single negatives as far as candidates last.
        granted = np.where(wanted <= free, wanted, 0 if self.rule.whole_set else free)
        order = outdated.cumsum(1)
        replaced = outdated & (order <= granted[:, None])
        target = pool.skip + pool.slots + pool.used[rows].astype(np.int64)[:, None] + order - 1
        moves = target - (pool.skip + np.arange(pool.slots))
        pool.moves[rows] = np.where(replaced, moves, pool.moves[rows])
        pool.seen[rows] &= ~replaced
        pool.used[rows] += granted.astype(np.int16)
        return int(judged.sum()), int(replaced.sum()), int((outdated & ~replaced).sum())

    def state_dict(self) -> list[dict[str, Any]]:
        """The state of the visited examples of each dataset, as arrays."""
        states = []
        for pool in self.pools:
            rows = np.flatnonzero(pool.seen.any(1) | (pool.used > 0) | (pool.judged > 0))
            states.append(
                {name: getattr(pool, name)[rows] for name in _STATE} | {"rows": rows},
            )
        return states

    def load_state_dict(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Go on from `states`.

        Raises:
            ValueError: they are of other datasets.
        """
        if len(states) != len(self.pools):
            raise ValueError(f"state of {len(states)} datasets for {len(self.pools)}")
        for pool, state in zip(self.pools, states, strict=True):
            rows = np.asarray(state["rows"])
            for name in _STATE:
                column = getattr(pool, name)
                column[:] = 0
                column[rows] = np.asarray(state[name])


_STATE = ("moves", "first", "seen", "used", "judged")
