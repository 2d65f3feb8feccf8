"""Consistency filtering: a pair stays if its document is among the query's nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from embedexp.config.errors import UserError

from .forbidden import as_columns
from .search import Tile, dots
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
    top_k: int = 2,
    shard_size: int = 1_000_000,
    min_score: float | None = None,
    normalize: bool = True,
    query_keys: ArrayLike | None = None,
    document_keys: ArrayLike | None = None,
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
        top_k: Places of which the document must hold one.
        shard_size: Pairs per shard.
        min_score: Pairs with a lower score are dropped, whatever their rank.
        normalize: Score by cosine; else by dot product.
        query_keys: `[n]` or `[n, c]`; the first tells equal queries. By default all are distinct.
        document_keys: `[n]` or `[n, c]`; the first tells equal documents.
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
    if top_k < 1 or shard_size < 1:
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
    for number, begin in enumerate(range(0, n, shard_size)):
        rows = np.sort(order[begin : begin + shard_size])  # sorted: read in one direction
        shards[rows] = number
        ranks[rows], scores[rows] = _ranks(
            Subset(left, rows),
            Subset(right, rows),
            keys[0][rows],
            keys[1][rows],
            tile or Tile(),
            comparable=query_keys is not None,
        )
    keep = ranks < top_k
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
        lengths = np.sqrt(dots(block, block))
        for start in range(0, len(first), tile.documents):
            numbers = first[start : start + tile.documents]
            vectors = np.asarray(documents[numbers], np.float32)
            error = (d + 2) * 2.0**-24 * 1.01 * lengths * np.sqrt(dots(vectors, vectors).max())
            for low in range(0, len(block), tile.queries):
                part = slice(low, min(len(block), low + tile.queries))
                found = block[part] @ vectors.T
                at, columns = np.nonzero(found >= (own[part] - error[part])[:, None])
                # Few: what is nearer than the own document, or too near to call.
                at = at + low
                exact = dots(block[at], vectors[columns])
                nearer = exact > own[at]
                at, columns = at[nearer], columns[nearer]
                counted = ~barred.contains(at + begin, numbers[columns])
                ranks[rows] += np.bincount(at[counted], minlength=len(block))
    return ranks, scores


class _Barred:
    """Pairs of a query and a document of a shard that do not count against each other."""

    def __init__(
        self, query_keys: NDArray[np.int64], document_keys: NDArray[np.int64], comparable: bool
    ) -> None:
        self.comparable = comparable
        self.query_keys, self.document_keys = query_keys, document_keys
        n = len(query_keys)
        # Documents as numbers: equal ones, by their first key, have the same.
        _, same = np.unique(
            np.where(document_keys[:, 0] < 0, -1 - np.arange(n), document_keys[:, 0]),
            return_inverse=True,
        )
        _, query = np.unique(query_keys[:, 0], return_inverse=True)
        self.same, self.query, self.width = same, query, n
        self.pairs = np.unique(query.astype(np.int64) * n + same)

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each document is a positive of the query, equal to one, or its sibling."""
        wanted = self.query[queries].astype(np.int64) * self.width + self.same[documents]
        at = np.searchsorted(self.pairs, wanted).clip(max=len(self.pairs) - 1)
        found = self.pairs[at] == wanted
        for c in range(self.document_keys.shape[1]):
            theirs = self.document_keys[documents, c]
            found |= (theirs >= 0) & (theirs == self.document_keys[queries, c])
            if self.comparable and c < self.query_keys.shape[1]:
                found |= (theirs >= 0) & (theirs == self.query_keys[queries, c])
        return np.asarray(found)


def _first_of_each(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with the first of each key, and all without one, in order."""
    _, first = np.unique(keys, return_index=True)
    keep = keys < 0
    keep[first] = True
    return np.flatnonzero(keep)
