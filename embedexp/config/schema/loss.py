"""Losses: what is learned from a batch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field
from .data import TrainingTask

Term = Literal[
    "other_positives",
    "own_hard_negatives",
    "other_hard_negatives",
    "other_queries",
    "other_documents",
]


class InfoNCE(Option):
    """InfoNCE whose denominator is declared."""

    name: Literal["infonce"] = field("option")
    tasks: list[TrainingTask] = field("kinds of example it can learn from", min_length=1)
    temperature: float = field("divides the cosines", gt=0)
    denominator: list[Term] = field("terms beside the positive", min_length=1)
    false_negative_margin: float | None = field("leave out negatives above the positive by more")


class CoSENT(Option):
    """CoSENT over scored pairs."""

    name: Literal["cosent"] = field("option")
    tasks: list[TrainingTask] = field("kinds of example it can learn from", min_length=1)
    scale: float = field("multiplies differences of cosines", gt=0)


class Temperatures(Option):
    """InfoNCE temperature by task."""

    retrieval: float = field("temperature of retrieval batches", gt=0)
    classification: float = field("temperature of classification batches", gt=0)
    clustering: float = field("temperature of clustering batches", gt=0)


class Denominators(Option):
    """InfoNCE denominator by task."""

    retrieval: list[Term] = field("terms beside the positive in retrieval batches", min_length=1)
    classification: list[Term] = field("terms in classification batches", min_length=1)
    clustering: list[Term] = field("terms in clustering batches", min_length=1)


class TaskAwareLoss(Option):
    """The batch's task picks the loss and its temperature (TA-CL)."""

    name: Literal["task_aware"] = field("option")
    tasks: list[TrainingTask] = field("kinds of example it can learn from", min_length=1)
    temperatures: Temperatures = field("InfoNCE temperature by task")
    denominators: Denominators = field("InfoNCE denominator by task")
    scale: float = field("CoSENT scale for sts", gt=0)


Loss = Annotated[InfoNCE | CoSENT | TaskAwareLoss, Field(discriminator="name")]
