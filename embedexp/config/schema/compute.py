"""Compute: where a run runs. None of it changes what is computed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class Cpu(Option):
    """One process on the CPU."""

    name: Literal["cpu"] = field("option", identity=False)
    threads: int | None = field("torch threads; null takes one per core", ge=1, identity=False)
    workers: int = field("processes that prepare batches ahead", ge=0, identity=False)


class Gpu(Option):
    """One process on one GPU."""

    name: Literal["gpu"] = field("option", identity=False)
    workers: int = field("processes that prepare batches ahead", ge=0, identity=False)


Compute = Annotated[Cpu | Gpu, Field(discriminator="name")]
