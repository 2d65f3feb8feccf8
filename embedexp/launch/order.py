"""What must have finished before a cell can start, and what becomes of it if that does not."""

from __future__ import annotations

import os
import time
from enum import Enum
from typing import TYPE_CHECKING

from embedexp.runs import RunDirectory, State
from embedexp.runs.status import hostname
from embedexp.runs.view import INTERRUPTED

from .operate import look

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from embedexp.runs.view import View

    from .outcome import Outcome
    from .plan import Cell

LOOK_SECONDS = 2.0
# Between a job's end and its requeueing, or SLURM's word about it, a run may look ended.
CALM_SECONDS = 15.0
_ENDED = (State.FINISHED, State.FAILED, State.CANCELLED, State.SKIPPED)
_FINAL = (*_ENDED, State.PREEMPTED)


class Standing(Enum):
    """Whether a cell may start."""

    READY = "ready"
    WAITS = "waits"


class Order:
    """The cells of a plan, and the runs that they read: some of the plan, some of elsewhere."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = {path_of(cell.run): cell for cell in cells}
        self._elsewhere = Watch()

    def own(self, cell: Cell) -> list[Cell]:
        """The cells of the plan that `cell` waits for, and that are started with it."""
        inside = (self._cells.get(str(path)) for path in cell.after)
        return [one for one in inside if one is not None and one.todo == "run"]

    def standing(self, cell: Cell, outcomes: Mapping[Cell, Outcome]) -> Standing | str:
        """Whether `cell` may start, or in a few words why it never can.

        `outcomes` are those of the cells that have ended.
        """
        waits = False
        own = {path_of(one.run): one for one in self.own(cell)}
        for path in cell.after:
            one = own.get(str(path))
            if one is None:
                state = self._elsewhere.state(path)
            elif one in outcomes:
                state = outcomes[one].state
            else:
                state = State.RUNNING
            if state in (State.RUNNING, State.QUEUED):
                waits = True
            elif state != State.FINISHED:
                return unmet(one.label if one is not None and one.label else path.name, state)
        return Standing.WAITS if waits else Standing.READY


class Calm:
    """Tells runs that have ended from those whose job SLURM is about to start once more."""

    def __init__(self) -> None:
        self._since: dict[Path, float] = {}

    def ended(self, seen: View) -> bool:
        """Whether the run has said that it ended, or nobody has had it for a while."""
        path = seen.run.path
        if seen.active:
            self._since.pop(path, None)
            return False
        if seen.state in _ENDED or seen.job is None or seen.job.launcher != "slurm":
            return True
        first = self._since.setdefault(path, time.monotonic())
        return time.monotonic() - first >= CALM_SECONDS


class Watch:
    """Runs that somebody else carries out: how they stand, asked for at most every few seconds."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}
        self._calm = Calm()

    def state(self, path: Path) -> str:
        """The state of the run in `path`; queued as long as anybody is going to run it."""
        known = self._seen.get(str(path))
        if known is None or (known[1] not in _FINAL and time.monotonic() - known[0] > LOOK_SECONDS):
            (seen,) = look([RunDirectory(path)]).views
            state = seen.state
            if not self._calm.ended(seen) and state != State.RUNNING:
                state = State.QUEUED
            known = self._seen[str(path)] = (time.monotonic(), state)
        return known[1]


def is_left(run: RunDirectory, state: str) -> bool:
    """Whether nobody is going to carry out a run that stands so, other than this process."""
    job = run.job
    ours = job is not None and (job.host, job.id) == (hostname(), str(os.getpid()))
    return state in (State.PLANNED, INTERRUPTED) or (state == State.QUEUED and ours)


def path_of(run: RunDirectory) -> str:
    """The run's directory as the configs that read it are understood."""
    return str(run.path.resolve())


def unmet(name: str, state: str) -> str:
    """Why a cell is skipped, in a few words."""
    return f"not started: {name}, which it reads, has not finished ({state})"


def unfinished(run: RunDirectory) -> str | None:
    """Why `run` could not start, if anything that it reads has not finished."""
    from embedexp.config.errors import UserError
    from embedexp.config.predecessors import predecessors

    try:
        before = [RunDirectory(path) for path in predecessors(run.config)]
    except UserError:
        return None
    bad = [one for one in before if one.status.state is not State.FINISHED]
    return unmet(bad[0].name, bad[0].status.shown) if bad else None


def in_rounds(cells: Sequence[Cell], order: Order, start: Callable[[Sequence[Cell]], None]) -> None:
    """Call `start` with the cells that wait for none of the rest, until none is left."""
    left = list(cells)
    while left:
        ready = [cell for cell in left if not any(one in left for one in order.own(cell))]
        start(ready)
        left = [cell for cell in left if cell not in ready]
