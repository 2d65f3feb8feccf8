"""Checks between compute and what is to be computed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .problems import Problem, Rule, rule, warning
from .resources import resources
from .schema.compute import Ddp, Fsdp

if TYPE_CHECKING:
    from .experiment import Config

ONLY_TRAINING = ("activation_checkpointing", "compile")
"""Keys of compute that only training reads."""


@rule()
def ranks_have_something_to_share(config: Config) -> Problem | None:
    """Only training spreads over processes; the others would do the same work twice."""
    needed = resources(config.compute)
    if needed.world == 1 or "training" in config.stage.uses:
        return None
    return Problem(
        f"stage={config.stage.name} runs in one process, "
        f"and compute={config.compute.name} asks for {needed.world}",
        f"use compute={'gpu' if needed.gpu else 'cpu'}",
    )


@rule()
def only_training_has_a_backward_pass(config: Config) -> Problem | None:
    """Recomputation and compiled blocks are for steps of training."""
    if "training" in config.stage.uses:
        return None
    for key in ONLY_TRAINING:
        if getattr(config.compute, key):
            return Problem(
                f"compute.{key}=true has no effect in stage={config.stage.name}",
                f"set compute.{key}=false",
            )
    return None


@rule("training", "batching")
def no_rank_is_idle(config: Config) -> Problem | None:
    """A step's examples are shared out by their tokens; each rank needs one at least."""
    needed, size = resources(config.compute), config.batching.size
    if size >= needed.world:
        return None
    sized = config.batching.name != "one_task_per_rank"
    raised = f"set batching.size={needed.world}" if sized else "raise batching.sizes"
    return Problem(
        f"{'batching.size is' if sized else 'batching.sizes add up to'} {size}, fewer examples a "
        f"step than the {needed.world} processes of compute={config.compute.name} "
        f"({needed.nodes} x {needed.devices})",
        f"{raised} or more, or set {_fewer(config, size)}",
    )


def _fewer(config: Config, most: int) -> str:
    """The override that asks for at most so many processes."""
    needed = resources(config.compute)
    if needed.nodes == 1:
        return f"compute.devices={most}"
    if most < needed.nodes:
        return f"compute.nodes=1 compute.devices={min(most, needed.devices)}"
    return f"compute.devices={most // needed.nodes}"


@rule("training")
def copies_need_several_nodes(config: Config) -> Problem | None:
    """On one node there is nothing for a hybrid to keep a copy on."""
    compute = config.compute
    if not isinstance(compute, Fsdp) or compute.sharding != "hybrid" or compute.nodes > 1:
        return None
    return Problem(
        "compute.sharding=hybrid has no effect on one node",
        "set compute.sharding=full, or compute.nodes=2 or more",
    )


@rule("training")
def shards_need_ranks(config: Config) -> Problem | None:
    """One process has nobody to share with."""
    compute = config.compute
    if not isinstance(compute, Ddp | Fsdp) or resources(compute).world > 1:
        return None
    what = "shards nothing" if isinstance(compute, Fsdp) else "shares nothing"
    return warning(
        f"compute={compute.name} {what} with one process",
        f"use compute={compute.accelerator}, or set compute.devices=2 or more",
    )


@rule("training", "backbone")
def bfloat16_is_for_gpus(config: Config) -> Problem | None:
    """Most CPUs have no bfloat16 arithmetic, and emulate it."""
    if resources(config.compute).gpu:
        return None
    for key, value in (
        ("training.precision", config.training.precision),
        ("backbone.dtype", config.backbone.dtype),
    ):
        if value != "float32":
            return warning(
                f"{key}={value} is several times slower than float32 on most CPUs",
                f"set {key}=float32, or use compute=gpu",
            )
    return None


RULES: tuple[Rule, ...] = (
    ranks_have_something_to_share,
    only_training_has_a_backward_pass,
    no_rank_is_idle,
    copies_need_several_nodes,
    shards_need_ranks,
    bfloat16_is_for_gpus,
)
