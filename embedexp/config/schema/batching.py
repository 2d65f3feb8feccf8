"""Batching: which examples meet in a batch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

Rule = Literal["homogeneous", "heterogeneous"]


class Sampling(Option):
    """How often each dataset is drawn, by its size beside its weight."""

    temperature: float | None = field("power of the size; null draws by the weights alone", ge=0)
    by: Literal["dataset", "language"] = field("whose size is taken to the power")


class Arranged(Option):
    """What every way of batching has in common."""

    no_duplicates: bool = field("keep equal texts out of a batch, within a window of batches")
    lengths: Literal["mixed", "bucketed"] = field("which lengths meet in a batch")
    sampling: Sampling = field("how often each dataset is drawn")


class Homogeneous(Arranged):
    """Each batch comes from one dataset."""

    name: Literal["homogeneous"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)


class Heterogeneous(Arranged):
    """Each batch mixes the datasets in proportion to their weights."""

    name: Literal["heterogeneous"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)


class Rules(Option):
    """How each task fills its batches."""

    retrieval: Rule = field("rule for retrieval")
    classification: Rule = field("rule for classification")
    clustering: Rule = field("rule for clustering")
    sts: Rule = field("rule for sts")


class TaskAware(Arranged):
    """Each step draws a task, then fills the batch by the task's rule."""

    name: Literal["task_aware"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)
    rules: Rules = field("how each task fills its batches")


class Sizes(Option):
    """Examples of each task in a step; null for a task that the data does not teach."""

    retrieval: int | None = field("examples of retrieval in a step", unit="examples", ge=1)
    classification: int | None = field(
        "examples of classification in a step", unit="examples", ge=1
    )
    clustering: int | None = field("examples of clustering in a step", unit="examples", ge=1)
    sts: int | None = field("examples of sts in a step", unit="examples", ge=1)


class OneTaskPerRank(Arranged):
    """Every step holds a sub-batch of each task."""

    name: Literal["one_task_per_rank"] = field("option")
    sizes: Sizes = field("examples of each task in a step, over all devices")
    rules: Rules = field("how each task fills its sub-batches")

    @property
    def size(self) -> int:
        """Examples per step, over all tasks and devices."""
        return sum(size for size in self.sizes.model_dump().values() if size is not None)


Batching = Annotated[
    Homogeneous | Heterogeneous | TaskAware | OneTaskPerRank, Field(discriminator="name")
]
