"""A dataset as mining sees it: distinct queries, distinct documents, and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .forbidden import Column, Forbidden

if TYPE_CHECKING:
    from embedexp.data import Dataset


@dataclass(frozen=True)
class Examples:
    """Distinct texts of a dataset, and which documents are right for which query.

    `documents` are the positives and the negatives that come with the data. `forbidden` bars, for
    each query: its positives, its own text, and documents of any group that the query or one of its
    positives belongs to.
    """

    name: str
    task: str
    queries: list[str]
    documents: list[str]
    positives: list[list[int]]
    forbidden: Forbidden

    @classmethod
    def of(cls, dataset: Dataset) -> Examples:
        """The examples of a dataset, which is read once."""
        queries: dict[str, int] = {}
        documents: dict[str, int] = {}
        positives: list[dict[int, None]] = []
        groups: dict[str, int] = {}
        of_query: list[set[int]] = []
        of_document: dict[int, set[int]] = {}
        column = dataset.groups if dataset.groups is not None else [None] * len(dataset)
        for query, positive, group in zip(dataset.queries, dataset.positives, column, strict=True):
            q = queries.setdefault(query, len(queries))
            d = documents.setdefault(positive, len(documents))
            if q == len(positives):
                positives.append({})
                of_query.append(set())
            positives[q][d] = None
            if group is not None:
                g = groups.setdefault(group, len(groups))
                of_query[q].add(g)
                of_document.setdefault(d, set()).add(g)
        for row in dataset.negatives or ():
            for text in row:
                documents.setdefault(text, len(documents))
        pairs = {(q, d) for q, row in enumerate(positives) for d in row}
        pairs |= {(q, documents[text]) for text, q in queries.items() if text in documents}
        columns = [_column(np.arange(len(documents)), pairs)]
        if groups:
            barred = {(q, g) for q, found in enumerate(of_query) for g in found}
            barred |= {
                (q, g)
                for q, row in enumerate(positives)
                for d in row
                for g in of_document.get(d, ())
            }
            # A document of several groups stands in several columns.
            for place in range(max(map(len, of_document.values()))):
                keys = np.full(len(documents), -1, np.int64)
                for d, found in of_document.items():
                    if place < len(found):
                        keys[d] = sorted(found)[place]
                columns.append(_column(keys, barred))
        return cls(
            dataset.name,
            dataset.task,
            list(queries),
            list(documents),
            [list(row) for row in positives],
            Forbidden(tuple(columns)),
        )


def _column(
    keys: np.ndarray[tuple[int], np.dtype[np.int64]], pairs: set[tuple[int, int]]
) -> Column:
    array = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Column(keys.astype(np.int64), array[:, 0].copy(), array[:, 1].copy())
