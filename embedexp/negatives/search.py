"""Exact search in tiles: the nearest documents of each query, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .forbidden import Forbidden

SPARE = 8
"""Candidates kept beyond those asked for: room for what float32 puts in the wrong order."""
TOGETHER = 256
"""Queries that are decided in float64 at a time."""
RESCORED = 2**22
"""Numbers gathered at a time when candidates are scored again (16 MiB in float32)."""


class Vectors(Protocol):
    """Rows of vectors `[n, d]`: an array, a memory map, or a cache that reads them when asked."""

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""

    def __getitem__(self, index: Any, /) -> NDArray[np.floating[Any]]:
        """The rows of a slice or of an array of row numbers."""


@dataclass(frozen=True)
class Tile:
    """How much is compared at once.

    In memory are `4 * queries * documents` bytes of scores, `documents` vectors, and the vectors
    and candidates of `block` queries, for which the documents are read once.
    """

    queries: int = 1024
    documents: int = 8192
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
    and queries for which float32 can't tell (many equal scores) are searched in float64. The
    result does not depend on the tile.
    """
    tile = tile or Tile()
    n, m = queries.shape[0], documents.shape[0]
    found = min(k, m)
    hits = Hits(np.full((n, k), -1, np.int64), np.full((n, k), -np.inf))
    for begin in range(0, n, tile.block):
        rows = slice(begin, min(n, begin + tile.block))
        block = np.asarray(queries[rows], np.float32)
        barred = None if forbidden is None else forbidden.rows(rows)
        best, scores, ceiling = _nearest(block, documents, found, barred, tile)
        hits.documents[rows, :found], hits.scores[rows, :found] = best, scores
        worst = scores.min(1, initial=np.inf)
        unsure = np.flatnonzero(np.isfinite(ceiling) & ~(worst > ceiling))
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


def dots(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Row by row, `[p]`; equal rows give equal sums, wherever they stand."""
    return np.asarray(np.einsum("pd,pd->p", left, right, dtype=np.float64))


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
    queries: NDArray[np.float32],
    documents: Vectors,
    k: int,
    forbidden: Forbidden | None,
    tile: Tile,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Documents and scores `[b, k]`, and what no document that was left out can exceed, `[b]`."""
    count, d = queries.shape
    kept = min(k + SPARE + k // 8, documents.shape[0])
    best = np.full((count, kept), -np.inf, np.float32)
    index = np.full((count, kept), -1, np.int64)
    room = np.empty(min(tile.queries, count) * min(tile.documents, documents.shape[0]), np.float32)
    longest = 0.0
    _length(queries, "queries")
    for begin, vectors in _tiles(documents, tile.documents):
        longest = max(longest, _length(vectors, "documents"))
        for first in range(0, count, tile.queries):
            part = slice(first, min(count, first + tile.queries))
            shape = (part.stop - first, len(vectors))
            # Into memory that is there already: fresh pages would cost a tenth of the product.
            scores = room[: shape[0] * shape[1]].reshape(shape)
            np.matmul(queries[part], vectors.T, out=scores)
            if forbidden is not None:
                here = slice(begin, begin + len(vectors))
                rows, columns = forbidden.rows(part).within(here)
                scores[rows, columns] = -np.inf
            _keep(best[part], index[part], scores, begin)
    exact = np.full(index.shape, -np.inf)
    rows, columns = np.nonzero(index >= 0)
    exact[rows, columns] = pair_scores(queries, documents, rows, index[rows, columns])
    error = _error(d) * np.sqrt(dots(queries, queries)) * longest
    # A list that is not full has everything that is not forbidden.
    full = (index >= 0).all(1) & (kept < documents.shape[0])
    ceiling = np.where(full, best.min(1, initial=np.inf) + error, -np.inf)
    found, values = best_first(index, exact)
    return found[:, :k], values[:, :k], ceiling


def _length(vectors: NDArray[np.float32], what: str) -> float:
    """Of the longest vector; raises `UserError` if one is not finite."""
    longest = float(np.sqrt(dots(vectors, vectors).max(initial=0.0)))
    if not np.isfinite(longest):
        raise UserError(
            f"some vectors of {what} are not finite",
            hint="check the teacher: NaN or infinity often comes from float16 weights",
        )
    return longest


def _keep(
    best: NDArray[np.float32], index: NDArray[np.int64], scores: NDArray[np.float32], begin: int
) -> None:
    """Put the scores of a tile `[b, t]` that are among the best so far into their lists."""
    count, width = scores.shape
    kept = best.shape[1]
    limit = best.min(1)
    if np.isneginf(limit).any():  # the first tiles, of which nearly all would be taken
        limit = np.maximum(limit, _reached(scores, kept))
    flat = np.flatnonzero((scores > limit[:, None]).ravel())
    if not len(flat):
        return
    rows = flat // width
    most = int(np.bincount(rows, minlength=count).max())
    if most > 4 * kept:  # cheaper as a whole
        top = min(kept, width)
        columns = np.argpartition(scores, width - top, axis=1)[:, width - top :]
        values = np.take_along_axis(scores, columns, 1)
    else:
        starts = np.searchsorted(rows, np.arange(count))
        places = np.arange(len(flat)) - starts[rows]
        columns = np.full((count, most), 0, np.int64)
        values = np.full((count, most), -np.inf, np.float32)
        columns[rows, places] = flat % width
        values[rows, places] = scores.ravel()[flat]
    numbers = np.where(np.isneginf(values), -1, columns + begin)
    both = np.concatenate([best, values], 1)
    chosen = np.argpartition(both, both.shape[1] - kept, axis=1)[:, -kept:]
    best[:] = np.take_along_axis(both, chosen, 1)
    index[:] = np.take_along_axis(np.concatenate([index, numbers], 1), chosen, 1)


def _reached(scores: NDArray[np.float32], kept: int) -> NDArray[np.float32] | float:
    """What at least `kept` of each row `[b, t]` are above, found without sorting rows."""
    # Of as many groups, each has one score that reaches the lowest of their highest scores.
    size = 1 << max(0, (scores.shape[1] // (4 * kept)).bit_length() - 1)
    groups = scores.shape[1] // size
    if groups < kept or size == 1:
        return -np.inf
    highest = scores[:, : groups * size].reshape(len(scores), groups, size).max(2)
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
    lengths = np.sqrt(dots(block, block))
    place = np.full(int(numbers[-1]) + 1, -1)
    place[numbers] = np.arange(count)
    best = _Lists(k, count)
    for begin, vectors in _tiles(documents, size):
        error = _error(d) * lengths * _length(vectors, "documents")
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


def _error(d: int) -> float:
    """Of a float32 dot product of unit vectors, in whatever order it is summed (and of those)."""
    return float((d + 2) * 2.0**-24 * 1.01)


def below(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    """In float32, and not above."""
    return np.nextafter(scores.astype(np.float32), np.float32(-np.inf))
