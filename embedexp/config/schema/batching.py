"""Batching: which examples meet in a batch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

Rule = Literal["homogeneous", "heterogeneous"]


class Homogeneous(Option):
    """Each batch comes from one dataset."""

    name: Literal["homogeneous"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)


class Heterogeneous(Option):
    """Each batch mixes the datasets in proportion to their weights."""

    name: Literal["heterogeneous"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)


class Rules(Option):
    """How each task fills its batches."""

    retrieval: Rule = field("rule for retrieval")
    classification: Rule = field("rule for classification")
    clustering: Rule = field("rule for clustering")
    sts: Rule = field("rule for sts")


class TaskAware(Option):
    """Each step draws a task, then fills the batch by the task's rule."""

    name: Literal["task_aware"] = field("option")
    size: int = field("examples per step, over all devices", unit="examples", ge=1)
    rules: Rules = field("how each task fills its batches")


Batching = Annotated[Homogeneous | Heterogeneous | TaskAware, Field(discriminator="name")]
