"""How a cell of a multirun ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.runs import FailureKind, State

if TYPE_CHECKING:
    from .plan import Cell
    from .process import CellProcess


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
        """Whether the cell was started here and did not finish."""
        return self.cell.todo == "run" and self.state != State.FINISHED

    @classmethod
    def unstarted(cls, cell: Cell) -> Outcome:
        """The outcome of a cell that needs no process, or has none yet."""
        remarks = {"finished": "finished before", "elsewhere": "running elsewhere", "run": ""}
        return cls(cell, cell.run.status.shown, remarks[cell.todo])

    @classmethod
    def ended(cls, cell: Cell, process: CellProcess) -> Outcome:
        """The outcome of a cell whose process has ended."""
        remark = process.settle()
        status = cell.run.status
        if status.failure not in (None, FailureKind.ERROR):
            return cls(cell, status.shown, f"{status.failure.value}: {remark}")
        # Another owner's run is not this cell's success, whatever its status says by now.
        state = (
            status.shown if process.poll() == 0 or status.state is not State.FINISHED else "failed"
        )
        return cls(cell, state, remark)
