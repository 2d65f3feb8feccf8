"""The lexical teacher: BM25 over words, by bm25s (extra `bm25`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError

from .search import Hits, best_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .forbidden import Forbidden

UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]{{2,}}"
"""Two or more letters or digits; Chinese and Japanese, which have no spaces, by character."""
QUERIES = 256  # whose forbidden documents are looked up at a time


@dataclass(frozen=True)
class BM25Teacher:
    """A teacher whose score is BM25 of the query's words in the document (Lucene's form).

    A document that shares no word with the query scores 0 and is no candidate.
    """

    index: Any  # None if the documents have no words
    size: int  # documents in it
    queries: Sequence[Sequence[int]]  # token ids, those that occur in the documents
    chosen: NDArray[np.int64] | None = None

    @classmethod
    def build(
        cls, queries: Sequence[str], documents: Sequence[str], k1: float, b: float
    ) -> BM25Teacher:
        """Index the documents.

        Raises:
            UserError: bm25s is not installed.
        """
        try:
            import bm25s
        except ImportError:
            raise UserError(
                "the teacher bm25 needs bm25s", hint="pip install embedexp[bm25]"
            ) from None
        found = _words(documents)
        if not any(found):
            return cls(None, len(documents), [[] for _ in queries])
        index = bm25s.BM25(k1=k1, b=b, method="lucene")
        index.index(found, show_progress=False)
        known = index.vocab_dict
        words = [[known[w] for w in row if w in known and w] for row in _words(queries)]
        return cls(index, len(documents), words)

    def hits(self, rows: slice, k: int, forbidden: Forbidden) -> Hits:
        """See `Teacher.hits`."""
        count = rows.stop - rows.start
        hits = Hits(np.full((count, k), -1, np.int64), np.full((count, k), -np.inf))
        size = self._size
        for row in range(count):
            if row % QUERIES == 0:  # at once, since what is forbidden is found by sorting
                some = forbidden.rows(slice(row, min(count, row + QUERIES)))
                owners, barred = some.within(slice(0, size))
                order = owners.argsort(kind="stable")
                owners, barred = owners[order], barred[order]
            low, high = np.searchsorted(owners, [row % QUERIES, row % QUERIES + 1])
            scores = self._all(rows.start + row)
            scores[barred[low:high]] = 0
            there = np.flatnonzero(scores > 0)
            if len(there) > k:  # with all that equal the last: the lower number goes first
                limit = np.partition(scores[there], len(there) - k)[len(there) - k]
                there = there[scores[there] >= limit]
            documents, values = best_first(there, scores[there])
            hits.documents[row, : min(k, len(there))] = documents[:k]
            hits.scores[row, : min(k, len(there))] = values[:k]
        return hits

    def scores(self, rows: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.float64]:
        """See `Teacher.scores`."""
        found = np.empty(len(rows))
        order = np.argsort(rows, kind="stable")
        cuts = np.flatnonzero(np.diff(rows[order])) + 1
        for at in np.split(order, cuts) if len(rows) else ():
            found[at] = self._all(int(rows[at[0]]))[documents[at]]
        return found

    def subset(self, documents: NDArray[np.int64]) -> BM25Teacher:
        """See `Teacher.subset`; frequencies of words stay those of all documents."""
        return BM25Teacher(self.index, self.size, self.queries, documents)

    @property
    def _size(self) -> int:
        return len(self.chosen) if self.chosen is not None else self.size

    def _all(self, query: int) -> NDArray[np.float64]:
        """Scores of all documents."""
        words = list(self.queries[query])
        if not words:
            return np.zeros(self._size)
        scores = self.index.get_scores_from_ids(words).astype(np.float64)
        return np.asarray(scores if self.chosen is None else scores[self.chosen])


def _words(texts: Sequence[str]) -> list[list[str]]:
    import bm25s

    found: list[list[str]] = bm25s.tokenize(
        list(texts), token_pattern=WORD, stopwords=None, return_ids=False, show_progress=False
    )
    return found
