"""What a data source gives: named columns of texts, and what they teach."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Dataset:
    """Examples of one kind: `queries[i]` belongs with `positives[i]`.

    `task` is one of `TRAINING_TASKS`. For `sts`, the two texts carry `scores[i]`. `groups[i]`,
    where given, says which examples must never be negatives of each other (same class, same
    hypernym); texts that are equal never are, groups or not. `weight` is how often the dataset is
    drawn, relative to the others.
    """

    name: str
    task: str
    queries: Sequence[str]
    positives: Sequence[str]
    negatives: Sequence[Sequence[str]] | None = None
    scores: Sequence[float] | None = None
    groups: Sequence[str] | None = None
    weight: float = 1.0

    def __len__(self) -> int:
        return len(self.queries)

    def __post_init__(self) -> None:
        for name in ("positives", "negatives", "scores", "groups"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.queries):
                raise ValueError(
                    f"dataset {self.name}: {len(column)} {name} for {len(self.queries)} queries"
                )

    def select(self, index: Iterable[int]) -> Dataset:
        """The examples `index`, in that order."""
        rows = list(index)
        columns: dict[str, Any] = {
            name: [column[row] for row in rows]
            for name in ("queries", "positives", "negatives", "scores", "groups")
            if (column := getattr(self, name)) is not None
        }
        return replace(self, **columns)


@dataclass(frozen=True)
class Corpus:
    """What an experiment reads: training datasets and, apart, pairs held out for evaluation."""

    train: tuple[Dataset, ...]
    heldout: tuple[Dataset, ...] = field(default=())
    fingerprint: str = ""  # SHA-256 of the content read, hexadecimal
