"""Negatives: which wrong answers a query sees beside those of its batch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class NoNegatives(Option):
    """Only the other examples of the batch."""

    name: Literal["none"] = field("option")


class Own(Option):
    """Hard negatives that come with the data."""

    name: Literal["own"] = field("option")
    count: int = field("hard negatives per query", unit="documents", ge=1)


class MinedFile(Option):
    """Hard negatives from a mined file."""

    name: Literal["mined_file"] = field("option")
    path: str = field("a mining run, its folder mined, Parquet or JSON lines", identity=False)
    count: int = field("hard negatives per query", unit="documents", ge=1)


class Label(Option):
    """Names of wrong classes, drawn at random."""

    name: Literal["label"] = field("option")
    count: int = field("negatives per query", unit="documents", ge=1)
    seed: int = field("another seed draws others", ge=0)


class Random(Option):
    """Documents of other examples, drawn at random."""

    name: Literal["random"] = field("option")
    count: int = field("negatives per query", unit="documents", ge=1)
    seed: int = field("another seed draws others", ge=0)


class Dynamic(Option):
    """Mined candidates that take turns, as the model comes to tell them apart."""

    name: Literal["dynamic", "dynamic_v1"] = field("option", identity=False)  # the values say it
    path: str | None = field(
        "candidates: a mining run, Parquet or JSON lines; null takes the data's own", identity=False
    )
    pool: int = field("candidates per query, the first ones of the list", unit="documents", ge=2)
    count: int = field("hard negatives per query at a time", unit="documents", ge=1)
    skip: int = field("first candidates that are never used", unit="documents", ge=0)
    factor: float = field("replaced if this times the cosine is below the first one", gt=0)
    ceiling: float = field("and if the cosine's size is below this", ge=0, le=1)
    floor: float | None = field("a first cosine below this is replaced at once", ge=-1, le=1)
    whole_set: bool = field("judge the mean of a query's negatives and replace them together")
    every: int = field("judge a query's negatives once in so many steps", unit="steps", ge=1)


Negatives = Annotated[
    NoNegatives | Own | MinedFile | Label | Random | Dynamic, Field(discriminator="name")
]
