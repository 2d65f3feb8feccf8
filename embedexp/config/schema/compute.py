"""Compute: where a run runs. None of it changes what is computed, but for rounding."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field


class _Compute(Option):
    """What every place has."""

    workers: int = field("processes that prepare batches ahead", ge=0, identity=False)
    time_limit: float | None = field(
        "minutes after which a run saves and stops; null never",
        unit="minutes",
        gt=0,
        identity=False,
    )
    activation_checkpointing: bool = field(
        "compute activations again in the backward pass instead of keeping them", identity=False
    )
    compile: bool = field("compile the transformer's blocks with torch.compile", identity=False)


class Cpu(_Compute):
    """One process on the CPU."""

    name: Literal["cpu"] = field("option", identity=False)
    threads: int | None = field("torch threads; null takes one per core", ge=1, identity=False)


class Gpu(_Compute):
    """One process on one GPU."""

    name: Literal["gpu", "slurm_gpu"] = field("option", identity=False)


class _Ranks(_Compute):
    """Several processes that share each batch."""

    accelerator: Literal["gpu", "cpu"] = field("what each process computes on", identity=False)
    nodes: int = field("machines", ge=1, identity=False)
    devices: int = field("processes on each machine, one per GPU", ge=1, identity=False)
    threads: int | None = field(
        "torch threads of each process; null divides the cores", ge=1, identity=False
    )


class Ddp(_Ranks):
    """Several processes, each with the whole model."""

    name: Literal["ddp", "slurm_ddp"] = field("option", identity=False)


class Fsdp(_Ranks):
    """Several processes, with weights, gradients and optimizer in shards (FSDP2)."""

    name: Literal["fsdp", "slurm_fsdp"] = field("option", identity=False)
    sharding: Literal["full", "hybrid"] = field(
        "shards over all processes, or over each node's with a copy per node", identity=False
    )


Compute = Annotated[Cpu | Gpu | Ddp | Fsdp, Field(discriminator="name")]
