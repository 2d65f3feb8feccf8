"""Searching with an index of faiss (extra `faiss`) in the place of exact tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError

from .products import SPARE
from .search import Hits, best_first, pair_scores

if TYPE_CHECKING:
    from embedexp.config.schema.stage import MiningSearch

    from .forbidden import Forbidden
    from .search import Vectors

STEP = 65_536  # documents added at a time
QUERIES = 1024  # queries searched at a time


@dataclass
class FaissSearch:
    """A search like `search.search`; only `faiss_flat` is sure to find the same documents.

    The documents are indexed when they are first searched, in memory. What the index finds is
    scored again in float64; what it doesn't find is missing, never filled up.
    """

    option: MiningSearch
    _built: tuple[Vectors, Any] | None = field(default=None, repr=False)

    def __call__(
        self, queries: Vectors, documents: Vectors, k: int, forbidden: Forbidden | None
    ) -> Hits:
        """The best `k` documents of each query that are not forbidden to it."""
        if self._built is None or self._built[0] is not documents:
            self._built = (documents, self._build(documents))
        index = self._built[1]
        n, m = queries.shape[0], documents.shape[0]
        hits = Hits(np.full((n, k), -1, np.int64), np.full((n, k), -np.inf))
        for begin in range(0, n, QUERIES):
            rows = slice(begin, min(n, begin + QUERIES))
            extra = 0
            if forbidden is not None:
                at, _ = forbidden.rows(rows).within(slice(0, m))
                extra = int(np.bincount(at, minlength=1).max())
            wanted = min(m, k + extra + SPARE)
            _, found = index.search(np.ascontiguousarray(queries[rows], np.float32), wanted)
            found = found.astype(np.int64)
            scores = np.full(found.shape, -np.inf)
            query, place = np.nonzero(found >= 0)
            number = found[query, place]
            if forbidden is not None:
                allowed = ~forbidden.contains(query + begin, number)
                query, place, number = query[allowed], place[allowed], number[allowed]
            scores[query, place] = pair_scores(queries, documents, query + begin, number)
            best, values = best_first(found, scores)
            kept = min(k, wanted)
            hits.documents[rows, :kept], hits.scores[rows, :kept] = best[:, :k], values[:, :k]
        return hits

    def _build(self, documents: Vectors) -> Any:
        """The index of the documents.

        Raises:
            UserError: faiss is not installed, or there are fewer documents than lists.
        """
        try:
            import faiss
        except ImportError:
            raise UserError(
                f"stage.search.method={self.option.method} needs faiss",
                hint="pip install embedexp[faiss], or use stage.search.method=exact",
            ) from None
        m, d = documents.shape
        metric = faiss.METRIC_INNER_PRODUCT
        if self.option.method == "faiss_flat":
            index: Any = faiss.IndexFlatIP(d)
        elif self.option.method == "faiss_hnsw":
            index = faiss.IndexHNSWFlat(d, self.option.hnsw.links, metric)
            index.hnsw.efConstruction = self.option.hnsw.build_breadth
            index.hnsw.efSearch = self.option.hnsw.breadth
        else:
            lists = self.option.ivf.lists
            if m < lists:
                raise UserError(
                    f"{m} documents can't be put into {lists} clusters",
                    where=f"stage.search.ivf.lists={lists}",
                    hint=f"set stage.search.ivf.lists={max(1, int(m**0.5))}, or search exactly",
                )
            index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, lists, metric)
            index.cp.min_points_per_centroid = 1  # faiss warns on the terminal otherwise
            index.nprobe = min(self.option.ivf.probes, lists)
            sample = np.linspace(0, m - 1, min(m, lists * 256)).astype(np.int64)
            index.train(np.ascontiguousarray(documents[sample], np.float32))
        for begin in range(0, m, STEP):
            index.add(np.ascontiguousarray(documents[begin : begin + STEP], np.float32))
        return index
