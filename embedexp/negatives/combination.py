"""Several teachers: from the candidates of each to one list of negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .rules import Kept, allowed, choose, noise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from .rules import Rules
    from .search import Hits


def combine(
    found: Sequence[Hits],
    references: Sequence[NDArray[np.float64]],
    rules: Sequence[Rules],
    combination: str,
    seeds: NDArray[np.uint64],
    score: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]],
) -> Kept:
    """Negatives of r rows from each teacher's candidates `[r, k]`.

    `references [r]` are each teacher's scores of what the margins refer to, `score` gives those of
    the first teacher for rows and documents `[p]`. Counts of what was refused add up over teachers.
    """
    if len(found) == 1:
        return choose(found[0], references[0], rules[0], seeds)
    if combination == "agreement":
        kept = _agreed(found, references, rules, seeds)
    else:
        kept = _united(
            [choose(*one, seeds) for one in zip(found, references, rules, strict=True)],
            rules[0].count,
        )
    rows, columns = np.nonzero(kept.documents >= 0)
    kept.scores[rows, columns] = score(rows, kept.documents[rows, columns])
    return kept


def _united(chosen: Sequence[Kept], count: int) -> Kept:
    """The teachers' negatives in turns: the first of each, the second of each, and so on."""
    # Column j * teachers + t is teacher t's negative j: its place is the turn in which it comes.
    documents = np.stack([kept.documents for kept in chosen], 2).reshape(
        len(chosen[0].documents), -1
    )
    ranks = np.stack([kept.ranks for kept in chosen], 2).reshape(documents.shape)
    order = np.argsort(documents, axis=1, kind="stable")
    ordered = np.take_along_axis(documents, order, 1)
    again = np.zeros(documents.shape, np.bool_)
    np.put_along_axis(again, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], 1)
    return _first((documents >= 0) & ~again, documents, ranks, count, chosen)


def _agreed(
    found: Sequence[Hits],
    references: Sequence[NDArray[np.float64]],
    rules: Sequence[Rules],
    seeds: NDArray[np.uint64],
) -> Kept:
    """What passes the rules of all teachers, by the sum of ranks, then by number."""
    count, considered = rules[0].count, sum(int((hits.documents >= 0).sum()) for hits in found)
    refused: dict[str, int] = {}
    first, *others = found
    passes, refused = allowed(first, references[0], rules[0])
    ranks = np.broadcast_to(np.arange(passes.shape[1]), passes.shape).astype(np.float64)
    for hits, reference, rule in zip(others, references[1:], rules[1:], strict=True):
        theirs, more = allowed(hits, reference, rule)
        refused = {name: refused[name] + more[name] for name in refused}
        where = _places(first.documents, np.where(theirs, hits.documents, -1))
        passes = passes & (where >= 0)
        ranks = ranks + where
    order = (ranks, first.documents)
    if rules[0].sampling == "random":
        order = (noise(seeds[:, None], first.documents), first.documents)
    best = np.lexsort((order[1], np.where(passes, order[0], np.inf)), axis=-1)
    documents = np.take_along_axis(first.documents, best, 1)
    there = np.take_along_axis(passes, best, 1)
    empty = [Kept(documents, np.empty(0), best, considered, refused)]
    return _first(there, documents, best, count, empty)


def _places(wanted: NDArray[np.int64], there: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `wanted [r, k]` its column in the same row of `there [r, l]`, or -1."""
    order = np.argsort(there, axis=1, kind="stable")
    ordered = np.take_along_axis(there, order, 1)
    # One sorted row of all rows, each lifted above the one before.
    step = max(int(wanted.max(initial=0)), int(there.max(initial=0))) + 2
    lift = (np.arange(len(there)) * step)[:, None]
    flat = (ordered + 1 + lift).ravel()
    target = wanted + 1 + lift
    at = np.searchsorted(flat, target.ravel()).clip(max=max(0, flat.size - 1)).reshape(wanted.shape)
    if not flat.size:
        return np.full(wanted.shape, -1)
    same = (flat[at] == target) & (wanted >= 0)
    return np.where(same, order.ravel()[at], -1)


def _first(
    there: NDArray[np.bool_],
    documents: NDArray[np.int64],
    ranks: NDArray[np.int64],
    count: int,
    chosen: Sequence[Kept],
) -> Kept:
    """The first `count` of each row that are there; scores are still to come."""
    first = np.argsort(~there, axis=1, kind="stable")[:, :count]
    there = np.take_along_axis(there, first, 1)
    refused: dict[str, int] = {}
    for kept in chosen:
        for name, number in kept.refused.items():
            refused[name] = refused.get(name, 0) + number
    return Kept(
        np.where(there, np.take_along_axis(documents, first, 1), -1),
        np.full(there.shape, np.nan),
        np.where(there, np.take_along_axis(ranks, first, 1), -1),
        sum(kept.considered for kept in chosen),
        refused,
    )
