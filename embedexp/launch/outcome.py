"""How a cell of a multirun ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.runs import FailureKind, State

from .handing import Taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hydra.core.utils import JobReturn

    from .plan import Cell
    from .process import CellProcess


# A cell that a scheduler has taken on may still end well.
_WELL = (State.FINISHED, State.QUEUED, State.RUNNING)


class CellFailedError(Exception):
    """What Hydra's sweepers are given as the result of a cell that did not finish."""


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: the state that people should read, and a remark."""

    cell: Cell
    state: str
    remark: str = ""

    @property
    def failed(self) -> bool:
        """Whether the cell was started here and has ended otherwise than finished."""
        return self.cell.todo == "run" and self.state not in _WELL

    @classmethod
    def unstarted(cls, cell: Cell) -> Outcome:
        """The outcome of a cell that needs no process, or has none yet."""
        held = f"elsewhere: {cell.remark}" if cell.remark else "running elsewhere"
        remarks = {"finished": "finished before", "elsewhere": held, "run": ""}
        return cls(cell, cell.run.status.shown, remarks[cell.todo])

    @classmethod
    def ended(cls, cell: Cell, process: CellProcess) -> Outcome:
        """The outcome of a cell whose process has ended."""
        if process.elsewhere:
            return cls(cell, cell.run.status.shown, "elsewhere: another process had started it")
        remark = process.settle()
        status = cell.run.status
        if status.failure not in (None, FailureKind.ERROR):
            return cls(cell, status.shown, f"{status.failure.value}: {remark}")
        # A process that breaks after its run has finished is no success.
        state = (
            status.shown if process.poll() == 0 or status.state is not State.FINISHED else "failed"
        )
        return cls(cell, state, remark)

    @classmethod
    def refused(cls, cell: Cell, problem: str) -> Outcome:
        """The outcome of a cell that could not be handed over."""
        if not isinstance(problem, Taken):
            return cls(cell, "failed", problem)
        # Whoever has it may be about to start it, and not have said so yet.
        state = cell.run.status.state
        return cls(cell, state if state in _WELL else State.QUEUED, problem)


def returned(overrides: Sequence[Sequence[str]], outcomes: Sequence[Outcome]) -> list[JobReturn]:
    """What a launcher gives back to Hydra: a run for each cell, or its failure."""
    from hydra.core.utils import JobReturn, JobStatus

    from embedexp.runs import Run

    returns = []
    for one, outcome in zip(overrides, outcomes, strict=True):
        failed = outcome.failed
        status = JobStatus.FAILED if failed else JobStatus.COMPLETED
        job = JobReturn(overrides=one, status=status, task_name="embedexp")
        job.working_dir = str(outcome.cell.run.path)
        job.return_value = CellFailedError(outcome.remark) if failed else Run(outcome.cell.run)
        returns.append(job)
    return returns
