"""Siblings: documents of a group that a positive belongs to are no negatives of its query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .forbidden import matches

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Siblings:
    """Pairs of a query and a document that shares a group with one of the query's positives.

    Documents may belong to many groups and groups have many documents, so that the pairs are found
    tile by tile, for each positive once, whatever number of queries share it.

    Attributes:
        queries: Query of each positive, rising, `[p]`.
        positives: The positives, `[p]`, as numbers into `groups_of`.
        sources: Documents of the groups `groups_of`, rising, `[e]`; as they were numbered at first.
        groups_of: A group of each of them, `[e]`.
        members: Documents as they are numbered now, rising, `[f]`.
        groups: A group of each of them, `[f]`.
    """

    queries: NDArray[np.int64]
    positives: NDArray[np.int64]
    sources: NDArray[np.int64]
    groups_of: NDArray[np.int64]
    members: NDArray[np.int64]
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, positives: NDArray[np.int64], members: NDArray[np.int64]) -> Siblings:
        """From pairs of query and positive, `[p, 2]`, and of document and group, `[e, 2]`."""
        right, groups = np.unique(positives, axis=0).T, np.unique(members, axis=0).T
        return cls(right[0], right[1], groups[0], groups[1], groups[0], groups[1])

    def rows(self, start: int, stop: int) -> Siblings:
        """See `Bars.rows`."""
        low, high = np.searchsorted(self.queries, [start, stop])
        return replace(
            self, queries=self.queries[low:high] - start, positives=self.positives[low:high]
        )

    def documents(self, index: NDArray[np.int64]) -> Siblings:
        """See `Bars.documents`."""
        entries, places = matches(index, self.members)
        return replace(self, members=places, groups=self.groups[entries])

    def within(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Bars.within`."""
        low, high = np.searchsorted(self.members, [start, stop])
        return self._pairs(self.members[low:high] - start, self.groups[low:high])

    def contains(
        self, queries: NDArray[np.int64], documents: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """See `Bars.contains`."""
        asked, number = np.unique(documents, return_inverse=True)
        entries, places = matches(self.members, asked)
        rows, found = self._pairs(entries, self.groups[places])
        return np.isin(queries * len(asked) + number, rows * len(asked) + found)

    def _pairs(
        self, documents: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of queries and those of the documents which are siblings of their positives."""
        positives, link = np.unique(self.positives, return_inverse=True)
        owners, entries = matches(self.sources, positives)
        order = groups.argsort(kind="stable")
        which, places = matches(groups[order], self.groups_of[entries])
        if not len(which):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        width = int(documents.max()) + 1
        shared = np.unique(owners[which] * width + documents[order[places]])
        owners, found = np.divmod(shared, width)
        queries, pairs = matches(owners, link)
        return self.queries[queries], found[pairs]
