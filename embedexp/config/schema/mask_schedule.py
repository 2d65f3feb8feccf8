"""Mask schedules: who may attend to whom, over training progress."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class Bidirectional(Option):
    """Every token sees its whole sequence."""

    name: Literal["bidirectional"] = field("option")


class Causal(Option):
    """Every token sees itself and what came before."""

    name: Literal["causal"] = field("option")


class Linear(Option):
    """Soft mask from causal to bidirectional, in proportion to training progress."""

    name: Literal["linear"] = field("option")
    form: Literal["column", "row", "printed", "literal"] = field("reading of the weight c_ij")


MaskSchedule = Annotated[Bidirectional | Causal | Linear, Field(discriminator="name")]
