"""Merging: several trained models become one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class NoMerge(Option):
    """No merging."""

    name: Literal["none"] = field("option")


class Uniform(Option):
    """The equal average."""

    name: Literal["uniform"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=2)


Merge = Annotated[NoMerge | Uniform, Field(discriminator="name")]
