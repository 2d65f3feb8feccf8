"""Which documents must never be negatives of which queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

NO_KEY = -1
"""A key that agrees with none."""


@dataclass(frozen=True)
class Column:
    """One kind of key: those of the documents, and those that each query must not meet.

    `keys [m]` int64; query `queries[i]` must not meet `barred[i]`, sorted by query, `[p]` each.
    """

    keys: NDArray[np.int64]
    queries: NDArray[np.int64]
    barred: NDArray[np.int64]


@dataclass(frozen=True)
class Forbidden:
    """Pairs of a query and a document that agree in the key of any column."""

    columns: tuple[Column, ...]

    def rows(self, index: slice) -> Forbidden:
        """The same for the queries of a slice, numbered from its start."""
        start, stop = index.start, index.stop
        parts = []
        for column in self.columns:
            low, high = np.searchsorted(column.queries, [start, stop])
            queries = column.queries[low:high] - start
            parts.append(Column(column.keys, queries, column.barred[low:high]))
        return Forbidden(tuple(parts))

    def documents(self, index: NDArray[np.int64]) -> Forbidden:
        """The same for some of the documents, numbered anew."""
        return Forbidden(tuple(Column(c.keys[index], c.queries, c.barred) for c in self.columns))

    def within(self, index: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Forbidden pairs among the documents of a slice: queries and places in the slice."""
        found_rows, found_places = [], []
        for column in self.columns:
            keys = column.keys[index]
            order = keys.argsort(kind="stable")
            keys = keys[order]
            low = np.searchsorted(keys, column.barred, "left")
            counts = np.searchsorted(keys, column.barred, "right") - low
            hit = np.flatnonzero(counts)
            low, counts = low[hit], counts[hit]
            inner = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
            found_rows.append(np.repeat(column.queries[hit], counts))
            found_places.append(order[np.repeat(low, counts) + inner])
        if not found_rows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return np.concatenate(found_rows), np.concatenate(found_places)

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each pair is forbidden, `[p]`."""
        result = np.zeros(len(queries), np.bool_)
        for column in self.columns:
            known, place = np.unique(column.barred, return_inverse=True)
            if not len(known):
                continue
            at = np.searchsorted(known, column.keys[documents]).clip(max=len(known) - 1)
            same = known[at] == column.keys[documents]
            pairs = np.unique(column.queries * len(known) + place)
            wanted = queries * len(known) + at
            spot = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
            result |= same & (pairs[spot] == wanted)
        return result


def forbid(
    positives: Sequence[Sequence[int]] | Sequence[NDArray[np.int64]],
    documents: int,
    query_keys: ArrayLike | None = None,
    document_keys: ArrayLike | None = None,
) -> Forbidden:
    """What follows from known positives and from keys.

    A query must not meet its positives, what agrees with one of them in the key of any column
    (exact duplicates: the same text; siblings: the same group), nor what agrees with itself.

    Args:
        positives: Numbers of the documents that belong to each of the n queries.
        documents: How many documents there are.
        query_keys: `[n]` or `[n, c]` integers; -1 agrees with nothing.
        document_keys: `[m]` or `[m, c]`, comparable with those of the queries.
    """
    counts = np.fromiter(map(len, positives), np.int64, len(positives))
    owners = np.repeat(np.arange(len(positives)), counts)
    flat = np.concatenate([np.asarray(row, np.int64) for row in positives] or [np.empty(0, int)])
    columns = [Column(np.arange(documents), owners, flat.astype(np.int64))]
    if document_keys is not None:
        of_documents = as_columns(document_keys)
        of_queries = None if query_keys is None else as_columns(query_keys)
        for c in range(of_documents.shape[1]):
            keys = of_documents[:, c]
            queries, barred = owners, keys[flat]
            if of_queries is not None and c < of_queries.shape[1]:
                queries = np.concatenate([queries, np.arange(len(of_queries))])
                barred = np.concatenate([barred, of_queries[:, c]])
            pairs = np.unique(np.stack([queries, barred], 1)[barred != NO_KEY], axis=0)
            columns.append(Column(keys, pairs[:, 0], pairs[:, 1]))
    return Forbidden(tuple(columns))


def as_columns(keys: ArrayLike) -> NDArray[np.int64]:
    """Keys `[n]` or `[n, c]` as `[n, c]` int64."""
    array = np.asarray(keys, np.int64)
    return array[:, None] if array.ndim == 1 else array
