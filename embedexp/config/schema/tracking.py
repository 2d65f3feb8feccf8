"""Tracking beside the run directory's own files."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class NoTracking(Option):
    """Only the run directory's own files."""

    name: Literal["none"] = field("option", identity=False)


class Wandb(Option):
    """Weights & Biases."""

    name: Literal["wandb"] = field("option", identity=False)
    mode: Literal["offline", "online"] = field(
        "whether anything leaves the machine", identity=False
    )
    project: str = field("W&B project", identity=False)
    entity: str | None = field("W&B team or user", identity=False)
    group: str | None = field("W&B group, the multirun's id in its cells", identity=False)


Tracking = Annotated[NoTracking | Wandb, Field(discriminator="name")]
