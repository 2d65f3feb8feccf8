"""A run's log on the screen, as it is or as it grows."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.launch.operate import look
from embedexp.runs import State
from embedexp.runs.text import plain
from embedexp.runs.view import INTERRUPTED, View, view

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.runs import RunDirectory

POLL_SECONDS = 0.3
# SLURM is asked rarely: it answers everybody.
ASK_SECONDS = 30.0
# A job that is queued again says "preempted" for as long as SLURM takes to be asked.
REQUEUE_SECONDS = 10.0
_ENDED = (State.FINISHED, State.FAILED, State.CANCELLED, State.SKIPPED, INTERRUPTED)


@dataclass(frozen=True)
class Source:
    """A file to show, and what it is in words."""

    file: Path
    words: str

    @classmethod
    def of(cls, run: RunDirectory, *, rank: int | None = None, job: bool = False) -> Source:
        """The log of `run`, that of a rank, or what the scheduler has recorded of its job.

        Raises:
            UserError: there is no such rank, or no scheduler.
        """
        if job:
            told = run.job
            if told is None or told.launcher != "slurm":
                raise UserError(
                    f"{run.path} has no scheduler's log: it was not started as a SLURM job",
                    hint=f"its own log: python -m embedexp logs {run.path}",
                )
            if told.log is None:
                raise UserError(f"{run.path} has no scheduler's log: it was never submitted")
            return cls(run.path / told.log, "its job has recorded")
        file = run.log_of(rank or 0)
        if rank and not file.exists():
            ranks = [path.name.removeprefix("log.rank")[: -len(".txt")] for path in run.logs]
            there = ", ".join("0" if name.startswith("log") else name for name in ranks)
            raise UserError(
                f"{run.path} has no log of rank {rank}",
                where=f"ranks with a log: {there or 'none'}",
                hint="the scheduler's own output: --job",
            )
        return cls(file, "it has logged")


def follow(
    run: RunDirectory,
    *,
    wait: bool,
    out: IO[str] | None = None,
    source: Source | None = None,
) -> None:
    """Print the log of `run`; with `wait`, go on until the run has ended, through all requeues."""
    out = out if out is not None else sys.stdout
    source = source or Source.of(run)
    position = 0
    standing = _Standing(run)
    while True:
        # Asked before reading, so that what was written before the end is printed too.
        resting = not wait or standing.ended()
        position = _print_from(source.file, position, out)
        if resting:
            break
        time.sleep(POLL_SECONDS)
    (now,) = look([run]).views
    if position == 0:
        _tell_empty(now, source, out)
    elif wait and now.state != State.FINISHED:
        print(plain(f"{run.path} is {now.state}"), file=out)


class _Standing:
    """Whether a run has ended: its own word, and now and then SLURM's."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._asked = time.monotonic()
        self._preempted: float | None = None

    def ended(self) -> bool:
        now = view(self._run)
        if now.job is not None and now.state not in _ENDED:
            if time.monotonic() - self._asked > ASK_SECONDS:
                (now,) = look([self._run]).views
                self._asked = time.monotonic()
        elif now.state == INTERRUPTED and now.job is not None and now.job.launcher == "slurm":
            # Its process is gone, its job may be queued again: only SLURM knows.
            if time.monotonic() - self._asked < REQUEUE_SECONDS:
                return False
            (now,) = look([self._run]).views
            self._asked = time.monotonic()
        if now.state != State.PREEMPTED:
            self._preempted = None
            return now.state in _ENDED
        self._preempted = self._preempted or time.monotonic()
        requeues = now.job is not None and now.job.launcher == "slurm"
        return not requeues or time.monotonic() - self._preempted > REQUEUE_SECONDS


def _tell_empty(now: View, source: Source, out: IO[str]) -> None:
    """A run that has logged nothing: what else there is that may tell why."""
    print(plain(f"{now.run.path} is {now.state}; nothing is what {source.words}"), file=out)
    if now.remark:
        print(plain(now.remark), file=out)
    recorded = now.run.path / now.job.log if now.job is not None and now.job.log else None
    if recorded is None or recorded == source.file or not recorded.exists():
        return
    print(plain(f"its job's own output ({recorded}):"), file=out)
    _print_from(recorded, 0, out)


def _print_from(file: Path, position: int, out: IO[str]) -> int:
    try:
        with file.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(position if position <= size else 0)  # a repeated run begins a new log
            content = log.read()
            end = log.tell()
    except FileNotFoundError:
        return 0
    out.write(plain(content.decode("utf-8", errors="replace").replace("\r\n", "\n")))
    out.flush()
    return end
