"""What is to be told about a run: its status, and what is known beyond it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .status import BEAT_SECONDS, FailureKind, State, Status
from .text import duration

if TYPE_CHECKING:
    from .directory import RunDirectory
    from .job import Job

INTERRUPTED = "interrupted"
"""Shown for a run whose process is gone without having said how it ended."""

SILENT_SECONDS = 4 * BEAT_SECONDS


@dataclass(frozen=True, slots=True)
class View:
    """A run at one moment: `state` is what people should read, `status` what the run has said."""

    run: RunDirectory
    status: Status
    job: Job | None
    state: str
    remark: str
    label: str = ""

    @property
    def kind(self) -> FailureKind | None:
        """Why it failed, if it did."""
        return self.status.failure if self.state == State.FAILED else None

    @property
    def active(self) -> bool:
        """Whether it runs, or waits for somebody who will run it."""
        waiting = self.state == State.PLANNED and self.job is not None and self.job.id is not None
        return self.state in (State.RUNNING, State.QUEUED) or waiting


def view(run: RunDirectory, label: str = "") -> View:
    """What the run itself says, and what its process on this machine lets see."""
    status = run.status
    return View(run, status, run.job, status.shown, remark(status), label)


def remark(status: Status) -> str:
    """What else there is to know in a few words: the failure, the message, or the silence."""
    if status.failure is not None:
        kind = "" if status.failure is FailureKind.ERROR else status.failure.value
        first = (status.message or "").splitlines()
        return ": ".join(part for part in (kind, first[0] if first else "") if part)
    silence = status.silence if status.state is State.RUNNING else None
    if silence is not None and silence > SILENT_SECONDS:
        return f"no sign of life for {duration(silence)}"
    return status.message or ""
