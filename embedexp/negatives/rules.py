"""Which candidates may become negatives: ranks, thresholds relative to positives, scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .search import Hits

Reference = Literal["min", "max", "each"]
Sampling = Literal["top", "random"]


@dataclass(frozen=True)
class Rules:
    """From ranked candidates, which are not positives, to negatives.

    A candidate is kept if its rank is in `[rank_min, rank_max)`, counted from 0 before any other
    rule, and its score s is within all limits that are set, where p is the score of the reference:
    the query's lowest (`min`) or highest (`max`) positive, or each positive in turn, which then has
    negatives of its own (`each`).

    - `percent_of_positive` f: s <= f * p; for a negative p, s <= p - (1 - f) * |p|, as far below;
    - `relative_margin` r: s <= p - r * |p|;
    - `absolute_margin` a: s <= p - a;
    - `max_score`, `min_score`: s is not above, not below.

    Of what is left, the `count` best (`top`) or a random choice (`random`). Fewer stay fewer.

    Source: NV-Retriever's TopK-PercPos (arXiv 2407.15831), `relative_margin` = 1 - f.
    """

    count: int
    rank_min: int = 0
    rank_max: int | None = None
    percent_of_positive: float | None = None
    relative_margin: float | None = None
    absolute_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    reference: Reference = "min"
    sampling: Sampling = "top"

    def __post_init__(self) -> None:
        if self.count < 1 or self.rank_min < 0:
            raise UserError("count must be at least 1 and rank_min at least 0")
        if self.last < self.rank_min + self.count:
            raise UserError(
                f"ranks {self.rank_min} to {self.last} hold fewer than {self.count} negatives",
                hint=f"raise rank_max to {self.rank_min + self.count} or more",
            )

    @property
    def last(self) -> int:
        """Candidates to search for: `rank_max`, or ten times as many as are wanted."""
        return self.rank_min + 10 * self.count if self.rank_max is None else self.rank_max

    def ceiling(self, positive: NDArray[np.float64]) -> NDArray[np.float64]:
        """The highest score that the margins allow beside each positive's score, `[r]`."""
        limit = np.full(positive.shape, np.inf)
        if (f := self.percent_of_positive) is not None:
            # Below zero f * p would be above p: what is wanted is as far below it.
            limit = np.minimum(limit, np.where(positive >= 0, f, 2 - f) * positive)
        if (r := self.relative_margin) is not None:
            limit = np.minimum(limit, positive - r * np.abs(positive))
        if (a := self.absolute_margin) is not None:
            limit = np.minimum(limit, positive - a)
        return limit


RULES = ("rank_min", "margin", "max_score", "min_score")
"""The rules that refuse candidates, in the order in which they are counted."""


@dataclass
class Kept:
    """Negatives of r rows, ragged: row i has `counts[i]` of them, best first.

    `documents [r, count]` are -1 and `scores`, `ranks` (of the candidates, from 0) meaningless
    where there are fewer. `refused` counts candidates by the first rule that refused them, out of
    `considered`.
    """

    documents: NDArray[np.int64]
    scores: NDArray[np.float64]
    ranks: NDArray[np.int64]
    considered: int
    refused: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Negatives of each row, `[r]`."""
        return np.asarray((self.documents >= 0).sum(1))


def allowed(
    hits: Hits, positive: NDArray[np.float64], rules: Rules
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which candidates `[r, k]` pass, beside the reference's score `[r]`, and what was refused."""
    passes = hits.documents >= 0
    refused = {}
    ranks = np.arange(hits.documents.shape[1])
    tests = {
        "rank_min": np.broadcast_to(ranks >= rules.rank_min, passes.shape),
        "margin": hits.scores <= rules.ceiling(positive)[:, None],
        "max_score": hits.scores <= (np.inf if rules.max_score is None else rules.max_score),
        "min_score": hits.scores >= (-np.inf if rules.min_score is None else rules.min_score),
    }
    for name in RULES:
        refused[name] = int((passes & ~tests[name]).sum())
        passes = passes & tests[name]
    return passes, refused


def choose(
    hits: Hits, positive: NDArray[np.float64], rules: Rules, seeds: NDArray[np.uint64] | None = None
) -> Kept:
    """The negatives of r rows from their candidates `[r, k]`.

    `positive [r]` is the score of each row's reference; `seeds [r]` decide a random choice, so that
    it depends on nothing but the row.
    """
    passes, refused = allowed(hits, positive, rules)
    ranks = np.broadcast_to(np.arange(passes.shape[1]), passes.shape)
    if rules.sampling == "random":
        assert seeds is not None
        chance = noise(seeds[:, None], hits.documents)
        order = np.argsort(np.where(passes, chance, np.inf), axis=1, kind="stable")
        drawn = np.zeros(passes.shape, np.bool_)
        np.put_along_axis(drawn, order[:, : rules.count], True, 1)
        passes = passes & drawn
    first = np.argsort(~passes, axis=1, kind="stable")[:, : rules.count]
    there = np.take_along_axis(passes, first, 1)
    return Kept(
        np.where(there, np.take_along_axis(hits.documents, first, 1), -1),
        np.where(there, np.take_along_axis(hits.scores, first, 1), np.nan),
        np.where(there, np.take_along_axis(ranks, first, 1), -1),
        int((hits.documents >= 0).sum()),
        refused,
    )


def noise(seeds: NDArray[np.uint64], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each pair, by the finaliser of splitmix64."""
    with np.errstate(over="ignore"):
        x = seeds + numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((x ^ (x >> np.uint64(31))) / np.float64(2**64))
