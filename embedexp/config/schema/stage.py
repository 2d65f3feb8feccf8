"""Stages: what one run does. Each names the groups that it uses; only those are its identity."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Option, field

MODEL_GROUPS = ("backbone", "routing", "mask_schedule", "embedding")
ALWAYS = ("stage", "compute", "tracking", "scale")


class Contrastive(Option):
    """Train on pairs, then evaluate."""

    uses: ClassVar[tuple[str, ...]] = (
        *MODEL_GROUPS,
        "data",
        "batching",
        "negatives",
        "loss",
        "optimizer",
        "training",
        "evaluation",
        *ALWAYS,
    )
    name: Literal["contrastive"] = field("option")


class MergeStage(Option):
    """Average trained models, then evaluate."""

    uses: ClassVar[tuple[str, ...]] = ("merge", "evaluation", *ALWAYS)
    name: Literal["merge"] = field("option")


class EvaluateStage(Option):
    """Evaluate a trained model."""

    uses: ClassVar[tuple[str, ...]] = ("evaluation", *ALWAYS)
    name: Literal["evaluate"] = field("option")
    model: str = field("a run directory, a model directory or a hub name")


Stage = Annotated[Contrastive | MergeStage | EvaluateStage, Field(discriminator="name")]
