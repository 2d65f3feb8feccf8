"""Exact search in tiles: the nearest documents of each query, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .products import Half, Single, dots, has_matrix_unit, length, lengths, rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .forbidden import Forbidden
    from .products import Product

ROOM = 256
"""Candidates at most that a query's list takes beyond those before it is thinned out."""
UNSURE = 0.02
"""The share of queries for which bfloat16 may not tell, before all are compared in float32."""
TOGETHER = 256
"""Queries that are decided in float64 at a time."""
RESCORED = 2**18
"""Numbers gathered at a time when candidates are scored again: 1 MiB, to stay in the cache."""


class Vectors(Protocol):
    """Rows of vectors `[n, d]`: an array, a memory map, or a cache that reads them when asked."""

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""

    def __getitem__(self, index: Any, /) -> NDArray[np.floating[Any]]:
        """The rows of a slice, or a copy of those that an array of row numbers names."""


@dataclass(frozen=True)
class Tile:
    """How much is compared at once.

    In memory are `4 * queries * documents` bytes of scores, `documents` vectors, and the vectors
    and candidates of `block` queries, for which the documents are read once. Scores that stay in
    the processor's cache until they are looked at make small tiles the fast ones.
    """

    queries: int = 1024
    documents: int = 2048
    block: int = 16384


@dataclass(frozen=True)
class Hits:
    """The k nearest documents of n queries, best first; among equals the lower number first.

    `documents [n, k]` int64 are numbers of documents, -1 where there are fewer than k; `scores
    [n, k]` float64, -inf there.
    """

    documents: NDArray[np.int64]
    scores: NDArray[np.float64]

    def rows(self, index: slice) -> Hits:
        """The hits of some queries."""
        return Hits(self.documents[index], self.scores[index])


def search(
    queries: Vectors,
    documents: Vectors,
    k: int,
    *,
    forbidden: Forbidden | None = None,
    tile: Tile | None = None,
) -> Hits:
    """The `k` documents with the highest dot products, of those that a query is not forbidden.

    Exact: tiles are compared in float32, what could be among the best is scored again in float64,
    and queries for which float32 can't tell (many equal scores) are searched in float64. Where the
    processor has instructions for it, tiles are compared in bfloat16 first, for as long as that
    tells for nearly all queries. The result depends on neither that nor the tile.
    """
    tile = tile or Tile()
    n, m = queries.shape[0], documents.shape[0]
    found = min(k, m)
    hits = Hits(np.full((n, k), -1, np.int64), np.full((n, k), -np.inf))
    half = has_matrix_unit()
    for begin in range(0, n, tile.block):
        rows = slice(begin, min(n, begin + tile.block))
        block = np.asarray(queries[rows], np.float32)
        barred = None if forbidden is None else forbidden.rows(rows)
        if half:
            best, scores, unsure = _nearest(Half(block), documents, found, barred, tile)
            half = len(unsure) <= UNSURE * len(block)
        if not half:
            best, scores, unsure = _nearest(Single(block), documents, found, barred, tile)
        hits.documents[rows, :found], hits.scores[rows, :found] = best, scores
        worst = scores.min(1, initial=np.inf)
        for low in range(0, len(unsure), TOGETHER):
            some = unsure[low : low + TOGETHER]
            result = _in_double(
                np.asarray(queries[begin + some]), worst[some], documents, found,
                None if barred is None else barred.rows(slice(int(some[0]), int(some[-1]) + 1)),
                some - some[0], tile.documents,
            )  # fmt: skip
            hits.documents[begin + some, :found], hits.scores[begin + some, :found] = result
    return hits


def pair_scores(
    queries: Vectors, documents: Vectors, rows: NDArray[np.int64], index: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Dot products, in float64, of query `rows[i]` and document `index[i]`, `[p]`."""
    scores = np.empty(len(rows))
    step = max(1, RESCORED // max(1, queries.shape[1]))
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        scores[part] = dots(queries[rows[part]], documents[index[part]])
    return scores


def best_first(
    documents: NDArray[np.int64], scores: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each row by falling score, equals by rising number; what has -inf becomes -1."""
    order = np.lexsort((documents, -scores), axis=-1)
    documents = np.take_along_axis(documents, order, -1)
    scores = np.take_along_axis(scores, order, -1)
    return np.where(np.isneginf(scores), -1, documents), scores


def _tiles(documents: Vectors, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The first number and the vectors of each tile."""
    for begin in range(0, documents.shape[0], size):
        yield begin, np.asarray(documents[begin : begin + size], np.float32)


def _nearest(
    product: Product,
    documents: Vectors,
    k: int,
    forbidden: Forbidden | None,
    tile: Tile,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Documents and scores `[b, k]`, and the queries of which others may be nearer, `[u]`."""
    queries, m = product.given, documents.shape[0]
    count = len(queries)
    kept = min(k + product.spare + k // 8, m)
    best = _Best(count, kept)
    room = np.empty(min(tile.queries, count) * min(tile.documents, m), np.float32)
    starts = range(0, count, tile.queries)
    parts = [slice(first, min(count, first + tile.queries)) for first in starts]
    bars = [None if forbidden is None else forbidden.rows(part) for part in parts]
    for begin, vectors in _tiles(documents, tile.documents):
        product.take(vectors)
        for part, barred in zip(parts, bars, strict=True):
            shape = (part.stop - part.start, len(vectors))
            # Into memory that is there already: fresh pages would cost a tenth of the product.
            scores = room[: shape[0] * shape[1]].reshape(shape)
            product.scores(part, scores)
            if barred is not None:
                rows, columns = barred.within(slice(begin, begin + len(vectors)))
                scores[rows, columns] = -np.inf
            best.add(part.start, scores, begin)
    numbers, values = best.close()
    error = product.error()
    # What is further below the k-th than both can be wrong needs no second look.
    least = np.full(count, -np.inf)
    if kept > k:
        with np.errstate(invalid="ignore"):  # of what overflows, all is looked at
            least = np.partition(values, kept - k, axis=1)[:, kept - k] - 2 * error
        least = below(np.where(np.isnan(least), -np.inf, least))
    exact = np.full(numbers.shape, -np.inf)
    rows, columns = np.nonzero((numbers >= 0) & (values >= least[:, None]))
    exact[rows, columns] = pair_scores(queries, documents, rows, numbers[rows, columns])
    found, exact = best_first(numbers, exact)
    found, exact = found[:, :k], exact[:, :k]
    # A list that is not full has everything that is not forbidden.
    full = (numbers >= 0).all(1) & (kept < m)
    ceiling = values.min(1, initial=np.inf) + error
    sure = ~full | (exact.min(1, initial=np.inf) > ceiling)
    return found, exact, np.flatnonzero(~sure)


class _Best:
    """The `kept` best documents of each of n queries so far, with room for more.

    A row of `values [n, kept + spare]` is thinned out to the best only when it is full, since
    that costs more than all else. Documents with scores up to `limit [n]` are out for sure.
    """

    def __init__(self, n: int, kept: int) -> None:
        self.kept, self.width = kept, kept + min(kept, ROOM)
        self.values = np.full((n, self.width), -np.inf, np.float32)
        self.numbers = np.full((n, self.width), -1, np.int64)
        self.filled = np.zeros(n, np.int64)
        self.limit = np.full(n, -np.inf, np.float32)
        self.room = np.empty(0, np.bool_)

    def add(self, first: int, scores: NDArray[np.float32], begin: int) -> None:
        """Scores `[b, t]` of the queries from `first` and the documents from `begin` on."""
        count, width = scores.shape
        part = slice(first, first + count)
        limit = self.limit[part]
        if np.isneginf(limit).any():  # the first tiles, of which nearly all would be taken
            limit = np.maximum(limit, _reached(scores, self.kept))
        if len(self.room) < scores.size:
            self.room = np.empty(scores.size, np.bool_)
        above = self.room[: scores.size].reshape(scores.shape)
        flat = np.flatnonzero(np.greater(scores, limit[:, None], out=above))
        if not len(flat):
            return
        rows, columns = np.divmod(flat, width)
        counts = np.bincount(rows, minlength=count)
        places = np.arange(len(flat)) - (counts.cumsum() - counts)[rows]
        filled = self.filled[part]
        over = filled + counts > self.width
        if over.any():
            full = np.flatnonzero(over)
            if (most := int(counts.max())) > 4 * self.kept:  # cheaper as a whole
                top = min(self.kept, width)
                some = scores[full]
                new = np.argpartition(some, width - top, axis=1)[:, width - top :]
                values = np.take_along_axis(some, new, 1)
            else:
                inside = over[rows]
                at = (np.cumsum(over) - 1)[rows[inside]], places[inside]
                new = np.zeros((len(full), most), np.int64)
                values = np.full((len(full), most), -np.inf, np.float32)
                new[at], values[at] = columns[inside], scores.ravel()[flat[inside]]
            self._thin(full + first, values, np.where(np.isneginf(values), -1, new + begin))
            flat, rows, columns, places = (x[~over[rows]] for x in (flat, rows, columns, places))
        at = rows + first, filled[rows] + places
        self.values[at], self.numbers[at] = scores.ravel()[flat], columns + begin
        self.filled[part] += np.where(over, 0, counts)

    def _thin(
        self, rows: NDArray[np.int64], values: NDArray[np.float32], numbers: NDArray[np.int64]
    ) -> None:
        """Keep the best of some rows and of what is to be added to them, `[r, s]`."""
        values = np.concatenate([self.values[rows], values], 1)
        numbers = np.concatenate([self.numbers[rows], numbers], 1)
        best = np.argpartition(values, values.shape[1] - self.kept, axis=1)[:, -self.kept :]
        values = np.take_along_axis(values, best, 1)
        self.values[rows, self.kept :] = -np.inf
        self.numbers[rows, self.kept :] = -1
        self.values[rows, : self.kept] = values
        self.numbers[rows, : self.kept] = np.take_along_axis(numbers, best, 1)
        self.filled[rows], self.limit[rows] = self.kept, values.min(1)

    def close(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Documents and scores of the best, in no order, `[n, kept]`."""
        rows = np.flatnonzero(self.filled > self.kept)
        empty = np.empty((len(rows), 0))
        self._thin(rows, empty.astype(np.float32), empty.astype(np.int64))
        return self.numbers[:, : self.kept], self.values[:, : self.kept]


def _reached(scores: NDArray[np.float32], kept: int) -> NDArray[np.float32] | float:
    """What at least `kept` of each row `[b, t]` are above, found without sorting rows."""
    # Of as many groups, each has one score that reaches the lowest of their highest scores.
    size = 1 << max(0, (scores.shape[1] // (4 * kept)).bit_length() - 1)
    groups = scores.shape[1] // size
    if groups < kept or size == 1:
        return -np.inf
    # Groups are of distant columns: a maximum along rows would take ten times as long.
    highest = scores[:, : groups * size].reshape(len(scores), size, groups).max(1)
    reached = np.partition(highest, groups - kept, axis=1)[:, groups - kept]
    return np.nextafter(reached, np.float32(-np.inf))


def _in_double(
    queries: NDArray[Any],
    worst: NDArray[np.float64],
    documents: Vectors,
    k: int,
    forbidden: Forbidden | None,
    numbers: NDArray[np.int64],
    size: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k nearest documents of some queries `[u, d]`, decided in float64.

    `worst [u]` are scores that the k nearest reach; `numbers [u]`, rising, is how `forbidden`
    counts the queries.
    """
    count, d = queries.shape
    block = np.asarray(queries, np.float32)
    long = rounding(d) * lengths(block)
    place = np.full(int(numbers[-1]) + 1, -1)
    place[numbers] = np.arange(count)
    best = _Lists(k, count)
    for begin, vectors in _tiles(documents, size):
        error = long * length(vectors, "documents")
        scores = block @ vectors.T
        if forbidden is not None:
            rows, columns = forbidden.within(slice(begin, begin + len(vectors)))
            here = place[rows] >= 0
            scores[place[rows[here]], columns[here]] = -np.inf
        rows, columns = np.nonzero(scores >= below(worst - error)[:, None])
        best.add(rows, columns + begin, pair_scores(queries, documents, rows, columns + begin))
    return best.documents, best.scores


class _Lists:
    """The k best documents of each of n queries, of those that were added."""

    def __init__(self, k: int, n: int) -> None:
        self.documents = np.full((n, k), -1, np.int64)
        self.scores = np.full((n, k), -np.inf)

    def add(
        self, rows: NDArray[np.int64], documents: NDArray[np.int64], scores: NDArray[np.float64]
    ) -> None:
        """Pairs `[p]`, by rising row and document; those in the lists have lower numbers."""
        starts = np.searchsorted(rows, np.arange(len(self.documents) + 1))
        for row in np.flatnonzero(np.diff(starts)):
            part = slice(starts[row], starts[row + 1])
            numbers = np.concatenate([self.documents[row], documents[part]])
            values = np.concatenate([self.scores[row], scores[part]])
            k = len(self.scores[row])
            self.documents[row], self.scores[row] = (
                column[:k] for column in best_first(numbers, values)
            )


def below(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    """In float32, and not above."""
    return np.nextafter(scores.astype(np.float32), np.float32(-np.inf))
