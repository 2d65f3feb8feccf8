"""Who scores: what mining asks of a teacher, and teachers that are vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .search import Tile, pair_scores, search
from .vectors import Subset

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from .forbidden import Forbidden
    from .search import Hits, Vectors

    Search = Callable[["Vectors", "Vectors", int, "Forbidden | None"], "Hits"]
    """Queries, documents, how many, what is forbidden."""


class Teacher(Protocol):
    """Scores documents for queries, both by number."""

    def hits(self, rows: slice, k: int, forbidden: Forbidden) -> Hits:
        """The best `k` documents of some queries, of those that are not forbidden to them.

        `forbidden` counts those queries from 0.
        """

    def scores(self, rows: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """The score of each pair, `[p]`."""

    def subset(self, documents: NDArray[np.int64]) -> Teacher:
        """The same teacher over some of the documents, numbered anew."""


@dataclass(frozen=True)
class Embeddings:
    """A teacher whose score is the dot product of a query's and a document's vector."""

    queries: Vectors
    documents: Vectors
    tile: Tile = field(default_factory=Tile)
    find: Search | None = None  # an index in the place of exact tiles

    def hits(self, rows: slice, k: int, forbidden: Forbidden) -> Hits:
        """See `Teacher.hits`."""
        queries = Subset(self.queries, np.arange(rows.start, rows.stop))
        if self.find is not None:
            return self.find(queries, self.documents, k, forbidden)
        return search(queries, self.documents, k, forbidden=forbidden, tile=self.tile)

    def scores(self, rows: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Teacher.scores`."""
        return pair_scores(self.queries, self.documents, rows, documents)

    def subset(self, documents: NDArray[np.int64]) -> Embeddings:
        """See `Teacher.subset`."""
        chosen = Subset(self.documents, documents)
        return Embeddings(self.queries, chosen, self.tile, self.find)
