"""The status of a run: one small file, replaced as a whole, that anyone may read at any time."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from embedexp.files import write_atomically

from .failure import FailureKind, failure_kind

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FailureKind", "State", "Status", "failure_kind", "read_status", "write_status"]

# A live process writes at least every BEAT_SECONDS; the margin is for slow shared file systems.
BEAT_SECONDS = 15.0
SILENT_SECONDS = 120.0
# A process can't be seen from another container on the same host: believe a fresh heartbeat first.
FRESH_SECONDS = 3.0
# The same pid with another creation time is another process; clocks may have been set meanwhile.
CREATION_TOLERANCE_SECONDS = 60.0


class State(StrEnum):
    """Where a run stands."""

    PLANNED = "planned"
    QUEUED = "queued"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


# A run that is running may be started again: its process may have died without a word.
TRANSITIONS: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset(
        {State.QUEUED, State.RUNNING, State.FAILED, State.CANCELLED, State.SKIPPED}
    ),
    State.QUEUED: frozenset(
        {State.QUEUED, State.RUNNING, State.FAILED, State.CANCELLED, State.SKIPPED}
    ),
    State.RUNNING: frozenset(set(State) - {State.PLANNED, State.SKIPPED}),
    State.PREEMPTED: frozenset({State.QUEUED, State.RUNNING, State.FAILED, State.CANCELLED}),
    State.FINISHED: frozenset(),
    State.FAILED: frozenset({State.QUEUED, State.RUNNING, State.CANCELLED}),
    State.CANCELLED: frozenset({State.QUEUED, State.RUNNING}),
    State.SKIPPED: frozenset({State.QUEUED, State.RUNNING, State.CANCELLED, State.FAILED}),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """What `status.json` says. Times are ISO 8601 in UTC, durations seconds, rate samples/s.

    `job` and `nodes` are SLURM's, where the run was started by it; `starts` counts all starts.
    """

    state: State = State.PLANNED
    stage: str | None = None
    step: int = 0
    total_steps: int | None = None
    rate: float | None = None
    eta_seconds: float | None = None
    heartbeat: str | None = None
    pid: int | None = None
    process_created: float | None = None
    host: str | None = None
    started: str | None = None
    finished: str | None = None
    seconds: float = 0.0
    message: str | None = None
    failure: FailureKind | None = None
    traceback: str | None = None
    seed: int | None = None
    job: str | None = None
    nodes: str | None = None
    starts: int = 0

    @property
    def silence(self) -> float | None:
        """Seconds since the last sign of life, or None if there never was one."""
        if self.heartbeat is None:
            return None
        return (datetime.now(UTC) - datetime.fromisoformat(self.heartbeat)).total_seconds()

    @property
    def interrupted(self) -> bool:
        """Whether it says running while its process is gone: killed, or the machine went down."""
        if self.state is not State.RUNNING:
            return False
        silence = self.silence
        return (silence is None or silence >= FRESH_SECONDS) and _is_gone(self)

    @property
    def shown(self) -> str:
        """The state in one word, as people should read it: "interrupted" if nobody runs it."""
        return "interrupted" if self.interrupted else self.state.value


def hostname() -> str:
    """This machine's name, as written into `status.json`."""
    return socket.gethostname()


def now() -> str:
    """The time in ISO 8601, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_status(path: Path) -> Status:
    """The status in the file `path`; planned if there is none, failed if it can't be read."""
    try:
        content = json.loads(path.read_bytes())
        known = {field.name for field in dataclasses.fields(Status)}
        values: dict[str, Any] = {key: content[key] for key in content if key in known}
        values["state"] = State(values["state"])
        if values.get("failure") is not None:
            values["failure"] = FailureKind(values["failure"])
        return Status(**values)
    except FileNotFoundError:
        return Status()
    except (OSError, ValueError, TypeError, KeyError) as error:
        message = f"{path.name} can't be read: {error}"
        return Status(state=State.FAILED, failure=FailureKind.ERROR, message=message)


def write_status(path: Path, status: Status) -> None:
    """Replace the file `path` by `status`."""
    write_atomically(path, json.dumps(dataclasses.asdict(status), indent=2) + "\n")


def this_process() -> dict[str, Any]:
    """The fields of Status that name this process; a reused pid has another creation time."""
    import psutil

    pid = os.getpid()
    return {
        "pid": pid,
        "process_created": psutil.Process(pid).create_time(),
        "host": hostname(),
    }


def _is_gone(status: Status) -> bool:
    if status.host != hostname():
        return status.silence is None or status.silence > SILENT_SECONDS
    if status.pid is None:
        return True
    import psutil

    try:
        process = psutil.Process(status.pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        created = process.create_time()
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return status.process_created is not None and (
        abs(created - status.process_created) > CREATION_TOLERANCE_SECONDS
    )
