"""A dataset as mining sees it: distinct queries, distinct documents, and what is right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .forbidden import Column, Forbidden
from .siblings import Siblings

if TYPE_CHECKING:
    from embedexp.data import Dataset

    from .forbidden import Bars


@dataclass(frozen=True)
class Examples:
    """Distinct texts of a dataset, and which documents are right for which query.

    `documents` are the positives and the negatives that come with the data. `forbidden` bars, for
    each query: its positives, its own text, and documents of any group that one of its positives
    belongs to (as the query then does). `languages` are those of the queries, empty where unknown.
    """

    name: str
    task: str
    queries: list[str]
    documents: list[str]
    positives: list[list[int]]
    forbidden: Forbidden
    languages: list[str]

    @classmethod
    def of(cls, dataset: Dataset) -> Examples:
        """The examples of a dataset, which is read once."""
        queries: dict[str, int] = {}
        documents: dict[str, int] = {}
        positives: list[dict[int, None]] = []
        groups: dict[str, int] = {}
        of_document: dict[int, set[int]] = {}
        languages: list[str] = []
        spoken = dataset.languages or [dataset.language] * len(dataset)
        column = dataset.groups if dataset.groups is not None else [None] * len(dataset)
        rows = zip(dataset.queries, dataset.positives, column, spoken, strict=True)
        for query, positive, group, language in rows:
            q = queries.setdefault(query, len(queries))
            d = documents.setdefault(positive, len(documents))
            if q == len(positives):
                positives.append({})
                languages.append(language or "")
            positives[q][d] = None
            if group is not None:
                g = groups.setdefault(group, len(groups))
                of_document.setdefault(d, set()).add(g)
        for row in dataset.negatives or ():
            for text in row:
                documents.setdefault(text, len(documents))
        pairs = {(q, d) for q, row in enumerate(positives) for d in row}
        pairs |= {(q, documents[text]) for text, q in queries.items() if text in documents}
        columns: list[Bars] = [_column(np.arange(len(documents)), pairs)]
        if groups:
            right = [(q, d) for q, row in enumerate(positives) for d in row]
            of_group = [(d, g) for d, found in of_document.items() for g in found]
            columns.append(Siblings.of(np.array(right, np.int64), np.array(of_group, np.int64)))
        return cls(
            dataset.name,
            dataset.task,
            list(queries),
            list(documents),
            [list(row) for row in positives],
            Forbidden(tuple(columns)),
            languages,
        )


def _column(
    keys: np.ndarray[tuple[int], np.dtype[np.int64]], pairs: set[tuple[int, int]]
) -> Column:
    array = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Column(keys.astype(np.int64), array[:, 0].copy(), array[:, 1].copy())
