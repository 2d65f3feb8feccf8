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
    path: str = field("JSON lines with the fields query and negatives", identity=False)
    count: int = field("hard negatives per query", unit="documents", ge=1)


Negatives = Annotated[NoNegatives | Own | MinedFile, Field(discriminator="name")]
