"""Merging: several trained models, or several moments of one training, become one model."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field
from .routing import Placement

Weight = Annotated[float, Field(ge=0)]


class NoMerge(Option):
    """No merging, which is why it leaves no trace in a signature."""

    name: Literal["none"] = field("option", identity=False)


class Uniform(Option):
    """The equal average."""

    name: Literal["uniform"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=2)


class Weighted(Option):
    """The weighted average."""

    name: Literal["weighted"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=2)
    weights: list[Weight] = field("one per input; only their ratios count", min_length=2)


class GreedySoup(Option):
    """The equal average of those models that do not lower a validation score."""

    name: Literal["greedy_soup"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=2)
    tasks: list[str] | None = field("tasks of evaluation whose mean decides; null takes them all")
    min_gain: float = field("a model is kept if it adds at least this to the score", ge=0)


class Slerp(Option):
    """Spherical interpolation between two models, tensor by tensor."""

    name: Literal["slerp"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=2, max_length=2)
    t: float = field("how far from the first model to the second", ge=0, le=1)


class Ties(Option):
    """What models have learned since their common origin, without what contradicts."""

    name: Literal["ties"] = field("option")
    inputs: list[str] = field("run or model directories", min_length=1)
    base: str = field("run or model directory that they were all trained from")
    weights: list[Weight] | None = field("one per input; null weighs all 1")
    density: float = field("share of a model's changes that is kept, the largest", gt=0, le=1)
    trim: Literal["model", "tensor"] = field("among which changes the largest are sought")
    scaling: float = field("lambda, which multiplies the merged change", ge=0)


class ExpertAverage(Option):
    """A routed model becomes dense: the experts of each block are averaged."""

    name: Literal["expert_average"] = field("option")
    inputs: list[str] = field("a run or model directory, one", min_length=1, max_length=1)


class ExpertsFromRuns(Option):
    """Dense models become the task experts of one model."""

    name: Literal["experts_from_runs"] = field("option")
    experts: dict[str, str] = field("instruction task -> run or model directory", min_length=1)
    placement: Placement = field("which layers are routed: every, every_other or 0-based layers")

    @property
    def inputs(self) -> list[str]:
        """The directories, each once, in the order in which they become experts."""
        return list(dict.fromkeys(self.experts.values()))


class Ema(Option):
    """The exponential moving average of the weights, taken while training."""

    name: Literal["ema"] = field("option")
    decay: float = field("share of the average that an update keeps", ge=0, lt=1)
    every: int = field("steps from one update to the next", unit="steps", ge=1)
    start: int = field("steps before the average begins, as the weights then", unit="steps", ge=0)


class LastK(Option):
    """The equal average of the weights at the last moments of training."""

    name: Literal["last_k"] = field("option")
    k: int = field("moments, the end of training the last of them", ge=2)
    every: int = field("steps from one moment to the next", unit="steps", ge=1)


Merge = Annotated[
    NoMerge
    | Uniform
    | Weighted
    | GreedySoup
    | Slerp
    | Ties
    | ExpertAverage
    | ExpertsFromRuns
    | Ema
    | LastK,
    Field(discriminator="name"),
]
WhileTraining = Ema | LastK
"""Options that average during training; the others combine models that are trained."""
