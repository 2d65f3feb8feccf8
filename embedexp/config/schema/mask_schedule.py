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


Form = Literal["column", "row", "printed", "literal"]


class Linear(Option):
    """Soft mask from causal to bidirectional, in proportion to training progress."""

    name: Literal["linear"] = field("option")
    form: Form = field("reading of the weight c_ij")


class Accelerating(Option):
    """Soft mask from causal to bidirectional, with the square of training progress."""

    name: Literal["accelerating"] = field("option")
    form: Form = field("reading of the weight c_ij")


class Decelerating(Option):
    """Soft mask from causal to bidirectional, fast at first."""

    name: Literal["decelerating"] = field("option")
    form: Form = field("reading of the weight c_ij")


MaskSchedule = Annotated[
    Bidirectional | Causal | Linear | Accelerating | Decelerating, Field(discriminator="name")
]
