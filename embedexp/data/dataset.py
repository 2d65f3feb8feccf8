"""What a data source gives: named columns of texts, and what they teach."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = ("queries", "positives", "negatives", "scores", "groups", "teacher_scores", "languages")
"""The fields of a dataset that hold one value per example."""


@dataclass(frozen=True)
class Dataset:
    """Examples of one kind: `queries[i]` belongs with `positives[i]`.

    Columns are lists, or read from a file as they are asked for (`columns.ExampleStore`): go
    through many rows with `columns.batches`, and never copy a whole column.

    `task` is one of `TRAINING_TASKS`. For `sts`, the two texts carry `scores[i]`. `groups[i]`,
    where given, says which examples must never be negatives of each other (same class, same
    hypernym; None for none); texts that are equal never are, groups or not. `teacher_scores[i]`
    are a teacher's scores of the positive, then of the negatives. A query with several positives
    is several examples. `weight` is how often the dataset is drawn, relative to the others;
    `language` a code such as `en`, empty where it is unknown. Where examples say theirs,
    `languages[i]` is it (None: unknown) and counts instead.
    """

    name: str
    task: str
    queries: Sequence[str]
    positives: Sequence[str]
    negatives: Sequence[Sequence[str]] | None = None
    scores: Sequence[float] | None = None
    groups: Sequence[str | None] | None = None
    weight: float = 1.0
    teacher_scores: Sequence[Sequence[float]] | None = None
    language: str = ""
    languages: Sequence[str | None] | None = None

    def __len__(self) -> int:
        return len(self.queries)

    def __post_init__(self) -> None:
        for name in COLUMNS[1:]:
            column = getattr(self, name)
            if column is not None and len(column) != len(self.queries):
                raise ValueError(
                    f"dataset {self.name}: {len(column)} {name} for {len(self.queries)} queries"
                )

    def select(self, index: Iterable[int]) -> Dataset:
        """The examples `index`, in that order; of columns in a file, nothing is read."""
        import numpy as np

        from .columns import select

        rows = index if isinstance(index, np.ndarray) else list(index)
        columns: dict[str, Any] = {
            name: select(column, rows)
            for name in COLUMNS
            if (column := getattr(self, name)) is not None
        }
        return replace(self, **columns)


@dataclass(frozen=True)
class TextDataset:
    """Plain texts, for language modelling. `weight` and `language` as in `Dataset`."""

    name: str
    texts: Sequence[str]
    weight: float = 1.0
    language: str = ""

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Corpus:
    """What an experiment reads: training datasets and, apart, pairs held out for evaluation."""

    train: tuple[Dataset, ...]
    heldout: tuple[Dataset, ...] = field(default=())
    fingerprint: str = ""  # SHA-256 of the content read, hexadecimal
    texts: tuple[TextDataset, ...] = ()  # for language modelling
