"""Before any long work: is there what the run asks for? If not, what would fit?"""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.memory import Memory, estimate, gib, longest_sequence, longest_share
from embedexp.config.resources import resources
from embedexp.config.schema.compute import Fsdp
from embedexp.training import memory
from embedexp.training.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.embedding import Embedder
    from embedexp.runs import RunDirectory

log = logging.getLogger(__name__)

SURE = 1.1  # an estimate beyond the limit by more than this fails, one below warns
NEAR = 0.9  # estimates beyond this share of the limit warn
STEP = 256  # tokens; `training.chunk_tokens` is proposed in multiples of it
MOST_DEVICES = 4096


def preflight(config: Config, directory: RunDirectory) -> None:
    """Fail now if devices, memory or disk cannot be enough; warn where it is close.

    Every rank asks; what concerns the whole run only the first of a machine.

    Raises:
        UserError: what is asked for, what there is, and the key and number that would fit.
    """
    require_devices(config)
    first = int(os.environ.get("LOCAL_RANK", "0")) == 0
    if first and "training" in config.stage.uses and not directory.model.is_dir():
        require_memory(config, memory.limit(config))
        require_disk(config, directory.path)


def require_ranks(config: Config) -> None:
    """The processes that a launcher started are those that compute asks for; needs no torch.

    Raises:
        UserError: several machines without a launcher, or another number of processes.
    """
    needed, world = resources(config.compute), World.of_environment()
    if world.size == 1 and needed.nodes > 1:
        raise UserError(
            f"compute.nodes={needed.nodes}, but this command runs on one machine",
            hint="set compute.nodes=1, or submit it: -m hydra/launcher=slurm",
        )
    started = (world.size, world.local_size)
    if world.size > 1 and started != (needed.world, needed.devices):
        raise UserError(
            f"compute={config.compute.name} asks for {needed.world} processes "
            f"({needed.nodes} x {needed.devices}), and {world.size} were started "
            f"({world.nodes} x {world.local_size})",
            hint="start as many as compute.nodes x compute.devices, or change those",
        )


def require_devices(config: Config) -> None:
    """Torch sees the GPUs that compute asks for.

    Raises:
        UserError: there are none, or fewer.
    """
    needed = resources(config.compute)
    if not needed.gpu:
        return
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    local = int(os.environ.get("LOCAL_WORLD_SIZE", needed.devices))
    if found >= local:
        return
    one = local == 1
    asks = f"compute={config.compute.name}" + ("" if one else f" asks for {local} GPUs a machine")
    if found:
        raise UserError(f"{asks}, but torch sees {found} here", hint=f"set compute.devices={found}")
    cpus = "compute=cpu" if one else "compute.accelerator=cpu"
    raise UserError(
        f"{asks}, but torch sees no GPU here", hint=f"use {cpus}, or a machine with one"
    )


def require_disk(config: Config, run: Path) -> None:
    """There is room for checkpoints, the model and what is cached.

    Raises:
        UserError: there is not.
    """
    memory_of = estimate(config, share=1, shards=1)
    model, state = memory_of.weights, memory_of.weights + memory_of.optimizer
    existing = sum(p.stat().st_size for p in (run / "checkpoints").glob("**/*") if p.is_file())
    # A new one is whole before an old one goes.
    kept = config.training.keep_checkpoints + config.training.keep_best + 1
    needed = state * kept + model - existing
    free = shutil.disk_usage(_existing(run)).free
    if needed > free:
        raise UserError(
            f"{kept} checkpoints of {gib(state)} GiB and a model of {gib(model)} GiB need "
            f"{gib(needed)} GiB, and {gib(free)} GiB are free under {config.paths.runs}",
            hint=_less_disk(config, state, model - existing, free),
        )
    if needed > NEAR * free:
        log.warning(
            "checkpoints and model take %s of the %s GiB that are free", gib(needed), gib(free)
        )


def _less_disk(config: Config, state: float, rest: float, free: float) -> str:
    fitting = int((free - rest) // state) - 1 - config.training.keep_best
    if 1 <= fitting < config.training.keep_checkpoints:
        return f"set training.keep_checkpoints={fitting}, or paths.runs to another file system"
    return "set paths.runs to another file system, or make room"


def _existing(path: Path) -> Path:
    """The folder that is there already, of those that lead to `path`."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def require_memory(config: Config, limit: memory.Limit, share: int | None = None) -> None:
    """A step fits into a device, as far as can be known.

    `share` is how many tokens of a step this process embeds, if that is known. Before the data are
    read, it is so for blocks, which are all of one length, and with `training.chunk_tokens`. Where
    it is not, only what weights and one text take can fail; the longest texts there may be warn.

    Raises:
        UserError: it does not fit.
    """
    most = estimate(config, share=share)
    known = share is not None or _lengths_are_known(config)
    sure = most if known else estimate(config, share=longest_sequence(config))
    if sure.total > SURE * limit.size:
        raise UserError(
            f"a training step needs {gib(sure.total)} GiB of memory: {sure.parts()}",
            where=f"{limit.of} has {gib(limit.size)} GiB",
            hint=fitting(config, limit.size, share),
        )
    if most.total > NEAR * limit.size:
        log.warning(
            "a training step may need %s GiB of memory (%s)%s; %s has %s GiB; %s",
            gib(most.total),
            most.parts(),
            "" if known else " if all texts are as long as they may be",
            limit.of,
            gib(limit.size),
            fitting(config, limit.size, share),
        )


def require_memory_for(config: Config, embedder: Embedder, share: int) -> None:
    """The same once the model is there and the data are read: a step has `share` tokens here.

    Raises:
        UserError: it does not fit.
    """
    limit = memory.limit(config)
    if not resources(config.compute).gpu:  # what is in use by now holds the weights already
        held = sum(p.numel() * p.element_size() for p in embedder.parameters())
        limit = replace(limit, size=limit.size + held)
    require_memory(config, limit, share)


def _lengths_are_known(config: Config) -> bool:
    if config.stage.name in ("mlm", "causal_lm"):
        return True
    chunk = config.training.chunk_tokens
    return chunk is not None and chunk < longest_share(config)


def fitting(config: Config, limit: float, share: int | None = None) -> str:
    """The override with which a step fits into `limit` bytes."""
    longest = longest_sequence(config)
    share = longest_share(config) if share is None else share

    def of(tokens: int, checkpointing: bool | None = None, shards: int | None = None) -> Memory:
        return estimate(
            config, share=share, chunk_tokens=tokens, checkpointing=checkpointing, shards=shards
        )

    for checkpointing in dict.fromkeys((config.compute.activation_checkpointing, True)):
        also = (
            ""
            if checkpointing == config.compute.activation_checkpointing
            else (" and compute.activation_checkpointing=true")
        )
        low, high = 1, max(1, min(share, config.training.chunk_tokens or share) // STEP)
        if of(max(STEP, longest), checkpointing).total > limit:
            if of(longest, checkpointing).total <= limit:
                return f"set training.chunk_tokens={longest}{also}"
            continue
        while low < high:
            middle = (low + high + 1) // 2
            if of(middle * STEP, checkpointing).total <= limit:
                low = middle
            else:
                high = middle - 1
        return f"set training.chunk_tokens={low * STEP}{also}"
    devices = 2
    while devices <= MOST_DEVICES:
        if of(longest, True, devices).total <= limit:
            now = isinstance(config.compute, Fsdp) and resources(config.compute).nodes == 1
            how = f"compute.devices={devices}" if now else f"compute=fsdp over {devices} devices"
            return (
                f"use {how}, training.chunk_tokens={longest} and "
                "compute.activation_checkpointing=true"
            )
        devices *= 2
    return "use a smaller backbone, or shorter texts (embedding.document_tokens)"
