"""What a SLURM cluster offers, and whether it can hold what is asked of it."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embedexp.config.resources import Resources

    from .slurm_settings import SlurmSettings

SECONDS = 30.0
_FORMAT = "%P|%l|%D|%c|%m|%G"
_DEFAULT_ARRAY = 1000
# What a process inside a job or a training has been told, and a job of its own must not hear.
_INHERITED = re.compile(
    r"SLURM_(?!CONF$).*|SLURMD_.*|SRUN_.*|SUBMITIT_.*|PMI.*|MASTER_(ADDR|PORT)"
    r"|(LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE"
)


@dataclass(frozen=True)
class Nodes:
    """Nodes of one partition that are alike; `memory` in GiB, `gpus` by type, minutes."""

    partition: str
    default: bool
    minutes: float
    count: int
    cpus: int
    memory: float
    gpus: dict[str, int]


def require_client() -> None:
    """Refuse to go on where jobs can't be submitted.

    Raises:
        UserError: SLURM's commands or submitit are missing.
    """
    missing = [name for name in ("sbatch", "srun", "scontrol", "sinfo") if not shutil.which(name)]
    if missing:
        raise UserError(
            f"hydra/launcher=slurm needs SLURM's {missing[0]}, which is not on this machine's PATH",
            where="nothing was submitted",
            hint="start it on a login node of the cluster, or here: hydra/launcher=local",
        )
    from importlib.util import find_spec

    if find_spec("submitit") is None:
        raise UserError(
            "hydra/launcher=slurm needs the package submitit",
            where="nothing was submitted",
            hint="install the extra: pip install 'embedexp[slurm]'",
        )


@contextmanager
def outside_of_jobs() -> Iterator[None]:
    """Without the variables of a job or a process group that this process may be part of."""
    dropped = {name: os.environ.pop(name) for name in list(os.environ) if _INHERITED.match(name)}
    try:
        yield
    finally:
        os.environ.update(dropped)


def cluster() -> list[Nodes]:
    """The cluster's nodes by partition, alike ones together.

    Raises:
        UserError: SLURM doesn't answer.
    """
    output = _ask(["sinfo", "--noheader", "--exact", f"--format={_FORMAT}"])
    found = []
    for line in output.splitlines():
        parts = line.strip().split("|")
        if len(parts) != 6:
            continue
        name, limit, count, cpus, memory, gres = parts
        found.append(
            Nodes(
                name.rstrip("*"),
                name.endswith("*"),
                minutes(limit),
                int(count),
                _number(cpus),
                _number(memory) / 1024,
                _gpus(gres),
            )
        )
    return found


def largest_array() -> int:
    """The most jobs that one array may have."""
    match = re.search(r"^MaxArraySize\s*=\s*(\d+)", _ask(["scontrol", "show", "config"]), re.M)
    return max(1, int(match[1])) if match else _DEFAULT_ARRAY


def require_room(
    nodes: Sequence[Nodes], settings: SlurmSettings, shapes: Sequence[Resources]
) -> None:
    """Refuse what the cluster could never start, with what it could.

    Raises:
        UserError: the partition is unknown, or time, nodes, cores, memory or GPUs are too much.
    """
    there = _partition(nodes, settings.partition)
    if not there:
        return
    longest = max(group.minutes for group in there)
    name = f"partition {there[0].partition}"
    if settings.time is not None and settings.time > longest:
        raise UserError(
            f"hydra.launcher.time={settings.time} is more than {name} allows",
            hint=f"hydra.launcher.time={int(longest)}",
        )
    for shape in shapes:
        _require_shape(there, settings, shape, name)


def cpus_of(settings: SlurmSettings, shape: Resources) -> int:
    """Cores of each process."""
    return settings.cpus_per_task or shape.cpus


def minutes(text: str) -> float:
    """SLURM's `days-hours:minutes:seconds`, in minutes; infinite where there is no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+)(?::(\d+))?", text.strip())
    if match is None:
        return math.inf
    days, hours, middle, seconds = (int(part or 0) for part in match.groups())
    if match[1] and not match[2] and not match[4]:  # days-hours
        return days * 1440 + middle * 60
    if match[2] and match[4] is None:  # minutes:seconds
        return hours + middle / 60
    return days * 1440 + hours * 60 + middle + seconds / 60


def _partition(nodes: Sequence[Nodes], wanted: str | None) -> list[Nodes]:
    if wanted is None:
        return [group for group in nodes if group.default]
    known = list(dict.fromkeys(group.partition for group in nodes))
    for name in wanted.split(","):
        if name not in known:
            best = nearest(name, known)
            raise UserError(
                f"the cluster has no partition {name!r}"
                + (f"; did you mean {best}?" if best else ""),
                where=f"partitions: {', '.join(known)}",
                hint="set hydra.launcher.partition",
            )
    return [group for group in nodes if group.partition in wanted.split(",")]


def _require_shape(
    there: Sequence[Nodes], settings: SlurmSettings, shape: Resources, name: str
) -> None:
    kind = settings.gpu_type
    cores = cpus_of(settings, shape)
    total = sum(group.count for group in there)
    if shape.nodes > total:
        raise UserError(
            f"compute.nodes={shape.nodes}, but {name} has {total}", hint=f"compute.nodes={total}"
        )
    gpus = max(_count(group, kind) for group in there)
    if shape.gpu and shape.devices > gpus:
        what = f"{kind} GPUs" if kind else "GPUs"
        raise UserError(
            f"a cell needs {shape.devices} {what} on a node, but {name} has {gpus} on one",
            where="asked for by compute" + (" and hydra.launcher.gpu_type" if kind else ""),
            hint=f"compute.devices={gpus}" if gpus else "another partition, or compute=cpu",
        )
    most = max(group.cpus for group in there)
    if cores * shape.devices > most:
        fitting = most // shape.devices
        raise UserError(
            f"{shape.devices} processes of {cores} cores need {cores * shape.devices} cores on a "
            f"node, but {name} has {most} on one",
            where="asked for by " + _origin(settings),
            hint=f"hydra.launcher.cpus_per_task={fitting}"
            if fitting
            else f"compute.devices={most}",
        )
    memory = max(group.memory for group in there)
    if settings.memory is not None and settings.memory > memory:
        raise UserError(
            f"hydra.launcher.memory={settings.memory:g} GiB, but nodes of {name} have "
            f"{memory:.1f} GiB",
            hint=f"hydra.launcher.memory={int(memory)}",
        )
    fitting_nodes = sum(
        group.count
        for group in there
        if group.cpus >= cores * shape.devices
        and (settings.memory or 0) <= group.memory
        and (not shape.gpu or _count(group, kind) >= shape.devices)
    )
    if fitting_nodes < shape.nodes:
        raise UserError(
            f"a cell needs {shape.nodes} nodes, but {name} has {fitting_nodes} with that many "
            "cores, GPUs and that much memory",
            hint=f"compute.nodes={fitting_nodes}"
            if fitting_nodes
            else "ask for less of one of them",
        )


def _origin(settings: SlurmSettings) -> str:
    return (
        "hydra.launcher.cpus_per_task" if settings.cpus_per_task else "compute's threads, workers"
    )


def _count(group: Nodes, kind: str | None) -> int:
    return group.gpus.get(kind, 0) if kind else sum(group.gpus.values())


def _gpus(gres: str) -> dict[str, int]:
    """GPUs by type in a list such as `gpu:a100:8(S:0-1),nvme:1`."""
    found: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", gres).split(","):
        parts = entry.split(":")
        if parts[0] == "gpu" and len(parts) > 1:
            kind = parts[1] if len(parts) > 2 else ""
            found[kind] = found.get(kind, 0) + _number(parts[-1])
    return found


def _number(text: str) -> int:
    match = re.match(r"\d+", text.strip())
    return int(match[0]) if match else 0


def _ask(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise UserError(
            f"SLURM's {command[0]} doesn't answer", where="nothing was submitted"
        ) from None
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(
            f"SLURM's {command[0]} fails: {words[-1]}",
            where="nothing was submitted",
            hint="is this a login node, and is the cluster up?",
        )
    return done.stdout
