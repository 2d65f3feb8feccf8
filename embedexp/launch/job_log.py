"""What srun has written into a job's log about the task that ended the job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.runs import FailureKind

if TYPE_CHECKING:
    from pathlib import Path

_TAIL_BYTES = 1 << 16
_TASK = re.compile(r"^srun: error: (\S+): tasks? ([\d,-]+): (.+)$", re.M)
# A job that is queued again goes on in the same log.
_START = re.compile(r"^submitit INFO .*Starting with", re.M)
_KILLED = "perhaps by the system for lack of memory"


@dataclass(frozen=True, slots=True)
class Casualty:
    """A task that ended badly: its rank, the kind of failure, and what to tell of it."""

    rank: str
    kind: FailureKind
    message: str


def first_casualty(log: Path) -> Casualty | None:
    """The first task of the last attempt that ended badly, if srun tells.

    With several tasks SLURM's records hold only how the last ones were stopped for its sake.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    starts = [match.end() for match in _START.finditer(text)]
    match = _TASK.search(text, starts[-1] if starts else 0)
    if match is None:
        return None
    node, task, told = match[1], match[2], match[3].strip()
    who = f"rank {task} on {node}"
    exited = re.match(r"Exited with exit code (\d+)", told)
    if exited:
        return Casualty(task, FailureKind.ERROR, f"{who} ended with exit code {exited[1]}")
    if told.startswith("Out Of Memory"):
        return Casualty(task, FailureKind.OUT_OF_MEMORY, f"{who} used more memory than its job has")
    if told.startswith("Killed"):
        return Casualty(task, FailureKind.KILLED, f"{who} was killed by SIGKILL, {_KILLED}")
    return Casualty(task, FailureKind.KILLED, f"{who} was stopped: {told}")
