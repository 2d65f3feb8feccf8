"""Which documents must never be negatives of which queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

NO_KEY = -1
"""A key that agrees with none."""


class Bars(Protocol):
    """One reason for which queries must not meet documents, both by number."""

    def rows(self, start: int, stop: int) -> Self:
        """The same for the queries from `start` to `stop`, numbered from there."""

    def documents(self, index: NDArray[np.int64]) -> Self:
        """The same for some of the documents, in rising order, numbered anew."""

    def within(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of queries and documents from `start` to `stop`, these as places from `start`."""

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each pair is among them, `[p]`."""


@dataclass(frozen=True)
class Column:
    """One kind of key: those of the documents, and those that each query must not meet.

    `keys [m]` int64; query `queries[i]` must not meet `barred[i]`, sorted by query, `[p]` each.
    """

    keys: NDArray[np.int64]
    queries: NDArray[np.int64]
    barred: NDArray[np.int64]

    def rows(self, start: int, stop: int) -> Column:
        """See `Bars.rows`."""
        low, high = np.searchsorted(self.queries, [start, stop])
        return Column(self.keys, self.queries[low:high] - start, self.barred[low:high])

    def documents(self, index: NDArray[np.int64]) -> Column:
        """See `Bars.documents`."""
        return Column(self.keys[index], self.queries, self.barred)

    def within(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Bars.within`."""
        keys = self.keys[start:stop]
        order = keys.argsort(kind="stable")
        which, places = matches(keys[order], self.barred)
        return self.queries[which], order[places]

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """See `Bars.contains`."""
        known, place = np.unique(self.barred, return_inverse=True)
        if not len(known):
            return np.zeros(len(queries), np.bool_)
        at = np.searchsorted(known, self.keys[documents]).clip(max=len(known) - 1)
        same = known[at] == self.keys[documents]
        pairs = np.unique(self.queries * len(known) + place)
        wanted = queries * len(known) + at
        spot = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
        return np.asarray(same & (pairs[spot] == wanted))


@dataclass(frozen=True)
class Forbidden:
    """Pairs of a query and a document that must not meet, for any of several reasons."""

    columns: tuple[Bars, ...]

    def rows(self, index: slice) -> Forbidden:
        """The same for the queries of a slice, numbered from its start."""
        return Forbidden(tuple(column.rows(index.start, index.stop) for column in self.columns))

    def documents(self, index: NDArray[np.int64]) -> Forbidden:
        """The same for some of the documents, in rising order, numbered anew."""
        return Forbidden(tuple(column.documents(index) for column in self.columns))

    def within(self, index: slice) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Forbidden pairs among the documents of a slice: queries and places in the slice."""
        found = [column.within(index.start, index.stop) for column in self.columns]
        empty = np.empty(0, np.int64)
        return (
            np.concatenate([empty, *(rows for rows, _ in found)]),
            np.concatenate([empty, *(places for _, places in found)]),
        )

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each pair is forbidden, `[p]`."""
        result = np.zeros(len(queries), np.bool_)
        for column in self.columns:
            result |= column.contains(queries, documents)
        return result


def matches(
    ordered: NDArray[np.int64], wanted: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of a place in `wanted` and one in `ordered` (rising) where both are equal."""
    low = np.searchsorted(ordered, wanted, "left")
    counts = np.searchsorted(ordered, wanted, "right") - low
    which = np.repeat(np.arange(len(wanted)), counts)
    inner = np.arange(len(which)) - np.repeat(counts.cumsum() - counts, counts)
    return which, low[which] + inner


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
