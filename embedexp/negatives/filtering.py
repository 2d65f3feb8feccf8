"""Consistency filtering: a pair stays if its document is among the query's nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedexp.config.errors import UserError

from .forbidden import as_columns
from .products import dots, lengths, rounding
from .search import RESCORED, Tile
from .vectors import Normalised, Subset

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from .search import Vectors


@dataclass(frozen=True)
class Filtered:
    """What became of n pairs.

    `keep [n]` bool. `ranks [n]` int64 is the number of other documents of the pair's shard that are
    nearer to the query than its own (strictly: equals are no reason to drop a pair). `scores [n]`
    float64 are those of the pairs, `shards [n]` int64 where each was compared.
    """

    keep: NDArray[np.bool_]
    ranks: NDArray[np.int64]
    scores: NDArray[np.float64]
    shards: NDArray[np.int64]


def consistency_filter(
    queries: Vectors,
    documents: Vectors,
    *,
    top_k: int | None = 2,
    shard_size: int = 1_000_000,
    min_score: float | None = None,
    normalize: bool = True,
    query_keys: ArrayLike | None = None,
    document_keys: ArrayLike | None = None,
    parts: ArrayLike | None = None,
    seed: int | None = None,
    tile: Tile | None = None,
) -> Filtered:
    """Which pairs are consistent: fewer than `top_k` other documents are nearer to the query.

    Pairs are compared in shards, within which each document counts once. A query's other positives,
    what agrees with its own document in any key, and what agrees with the query in any key, do not
    count against a pair. Ranks are exact: scores that float32 can't tell apart are compared in
    float64.

    Args:
        queries: `[n, d]`.
        documents: `[n, d]`, row i that of pair i.
        top_k: Places of which the document must hold one; None drops no pair by its rank.
        shard_size: Pairs per shard.
        min_score: Pairs with a lower score are dropped, whatever their rank.
        normalize: Score by cosine; else by dot product.
        query_keys: `[n]` or `[n, c]`; the first tells equal queries. By default all are distinct.
        document_keys: `[n]` or `[n, c]`; the first tells equal documents.
        parts: `[n]`, such as languages; a shard has pairs of one of them only. By default one part.
        seed: Shuffles pairs before they are cut into shards; None cuts them as they come.
        tile: How much is compared at once.

    Raises:
        UserError: shapes that do not fit.

    Source: the filter of Nomic Embed (shards of 1M, k = 2) and Arctic Embed 2.0 (3M, k = 20).
    """
    n = queries.shape[0]
    if queries.shape != documents.shape:
        raise UserError(
            f"queries are {list(queries.shape)} and documents {list(documents.shape)}",
            hint="give one query and one document vector per pair",
        )
    if (top_k is not None and top_k < 1) or shard_size < 1:
        raise UserError("top_k and shard_size must be at least 1")
    left, right = (
        (Normalised(queries), Normalised(documents)) if normalize else (queries, documents)
    )
    keys = (
        np.arange(n)[:, None] if query_keys is None else as_columns(query_keys),
        np.full((n, 1), -1) if document_keys is None else as_columns(document_keys),
    )
    order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
    ranks, scores = np.empty(n, np.int64), np.empty(n)
    shards = np.empty(n, np.int64)
    part_of = np.zeros(n, np.int64) if parts is None else np.asarray(parts)
    cut = [
        own[begin : begin + shard_size]
        for own in (order[part_of[order] == part] for part in np.unique(part_of))
        for begin in range(0, len(own), shard_size)
    ]
    for number, rows in enumerate(map(np.sort, cut)):  # sorted: read in one direction
        shards[rows] = number
        ranks[rows], scores[rows] = _ranks(
            Subset(left, rows),
            Subset(right, rows),
            keys[0][rows],
            keys[1][rows],
            tile or Tile(),
            comparable=query_keys is not None,
        )
    keep = np.full(n, True) if top_k is None else ranks < top_k
    if min_score is not None:
        keep &= scores >= min_score
    return Filtered(keep, ranks, scores, shards)


def _ranks(
    queries: Vectors,
    documents: Vectors,
    query_keys: NDArray[np.int64],
    document_keys: NDArray[np.int64],
    tile: Tile,
    *,
    comparable: bool,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rank and score `[n]` of each pair within one shard."""
    n, d = queries.shape
    first = _first_of_each(document_keys[:, 0])
    barred = _Barred(query_keys, document_keys, comparable)
    ranks, scores = np.zeros(n, np.int64), np.empty(n)
    for begin in range(0, n, tile.block):
        rows = slice(begin, min(n, begin + tile.block))
        block = np.asarray(queries[rows], np.float32)
        own = scores[rows] = dots(block, np.asarray(documents[rows], np.float32))
        long = rounding(d) * lengths(block)
        parts = [
            slice(low, min(len(block), low + tile.queries))
            for low in range(0, len(block), tile.queries)
        ]
        lists = [barred.rows(slice(part.start + begin, part.stop + begin)) for part in parts]
        for start in range(0, len(first), tile.documents):
            numbers = first[start : start + tile.documents]
            vectors = np.asarray(documents[numbers], np.float32)
            error = long * lengths(vectors).max()
            for part, theirs in zip(parts, lists, strict=True):
                found = block[part] @ vectors.T
                found[theirs.within(numbers)] = -np.inf
                # All but few are surely nearer than the own document, or surely not; a pair that
                # fits badly has most of the shard before it, so that these are only counted.
                high, low = _around(own[part], error[part])
                nearer = found > high[:, None]
                ranks[part.start + begin : part.stop + begin] += np.count_nonzero(nearer, 1)
                at, columns = np.nonzero((found >= low[:, None]) & ~nearer)
                step = max(1, RESCORED // d)
                for piece in range(0, len(at), step):
                    row = at[piece : piece + step] + part.start
                    exact = dots(block[row], vectors[columns[piece : piece + step]])
                    counted = np.bincount(row[exact > own[row]], minlength=len(block))
                    ranks[rows] += counted
    return ranks, scores


def _around(
    own: NDArray[np.float64], error: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores in float32 above and below which one is surely nearer, and surely not, than `own`."""
    high, low = (own + error).astype(np.float32), (own - error).astype(np.float32)
    # A step outwards, since rounding to float32 may have gone inwards.
    return np.nextafter(high, np.float32(np.inf)), np.nextafter(low, np.float32(-np.inf))


class _Barred:
    """Pairs of a query and a document of a shard that do not count against each other."""

    def __init__(
        self, query_keys: NDArray[np.int64], document_keys: NDArray[np.int64], comparable: bool
    ) -> None:
        self.comparable = comparable
        self.query_keys, self.document_keys = query_keys, document_keys
        n = len(query_keys)
        # Documents as numbers: equal ones, by their first key, have the same.
        _, self.same = np.unique(
            np.where(document_keys[:, 0] < 0, -1 - np.arange(n), document_keys[:, 0]),
            return_inverse=True,
        )
        _, self.query = np.unique(query_keys[:, 0], return_inverse=True)
        pairs = np.unique(self.query.astype(np.int64) * n + self.same)
        self.owners, self.positives = np.divmod(pairs, n)

    def rows(self, index: slice) -> _BarredRows:
        """Those of the queries of a slice, numbered from its start."""
        query, row = np.unique(self.query[index], return_inverse=True)
        low = np.searchsorted(self.owners, query, "left")
        counts = np.searchsorted(self.owners, query, "right") - low
        owners, places = _spread(low, counts)
        # Equal queries have the same positives, which may be many: they are listed once.
        listed = _BarredRows(self, [_Listed(self.same, owners, self.positives[places], row)])
        every = np.arange(len(row))
        for c in range(self.document_keys.shape[1]):
            keys = self.document_keys[:, c]
            sides = [keys[index]]
            if self.comparable and c < self.query_keys.shape[1]:
                sides.append(self.query_keys[index, c])
            for side in sides:
                there = np.flatnonzero(side >= 0)
                listed.lists.append(_Listed(keys, there, side[there], every))
        return listed


@dataclass(frozen=True)
class _Listed:
    """Keys of all documents `[n]`, and those that groups of queries must not meet.

    Group `owners[i]` must not meet `barred[i]`; `group [q]` is that of each query.
    """

    keys: NDArray[np.int64]
    owners: NDArray[np.int64]
    barred: NDArray[np.int64]
    group: NDArray[np.int64]


@dataclass(frozen=True)
class _BarredRows:
    """What some queries must not meet."""

    barred: _Barred
    lists: list[_Listed]

    def within(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Barred pairs among some documents: queries, and places in `documents`."""
        rows, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for listed in self.lists:
            keys = listed.keys[documents]
            order = keys.argsort(kind="stable")
            keys = keys[order]
            low = np.searchsorted(keys, listed.barred, "left")
            which, places = _spread(low, np.searchsorted(keys, listed.barred, "right") - low)
            owner, place = listed.owners[which], order[places]
            # From groups of queries to queries.
            by_group = listed.group.argsort(kind="stable")
            grouped = listed.group[by_group]
            low = np.searchsorted(grouped, owner, "left")
            which, members = _spread(low, np.searchsorted(grouped, owner, "right") - low)
            rows.append(by_group[members])
            found.append(place[which])
        return np.concatenate(rows), np.concatenate(found)


def _spread(
    low: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each range of `counts[i]` numbers from `low[i]` on: i and the number, one by one."""
    which = np.repeat(np.arange(len(low)), counts)
    inner = np.arange(len(which)) - np.repeat(counts.cumsum() - counts, counts)
    return which, low[which] + inner


def _first_of_each(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with the first of each key, and all without one, in order."""
    _, first = np.unique(keys, return_index=True)
    keep = keys < 0
    keep[first] = True
    return np.flatnonzero(keep)
