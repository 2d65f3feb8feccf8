"""What a person sees of a multirun: a live table in a terminal, one line per event elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from embedexp.runs import FailureKind, Run, State
from embedexp.runs.tables import console, progress, styled
from embedexp.runs.text import duration, markup

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import RenderableType
    from rich.table import Table

    from .outcome import Outcome
    from .plan import Cell, Plan

_ROWS_KEPT = 8  # lines of the terminal left for what stands above and below the table


class Screen:
    """Tells how the cells of a plan are doing; a context that leaves the terminal as it was."""

    def __init__(self, plan: Plan, processes: int | None) -> None:
        self._plan = plan
        self._console = console()
        self._running: set[Cell] = set()
        self._ended: dict[Cell, Outcome] = {}
        self._live: Any = None
        several = processes is not None and len(plan.to_run) > 1
        at_a_time = f", {processes} at a time" if several else ""
        self.note(plan.summary() + at_a_time)

    def __enter__(self) -> Self:
        if self._console.is_terminal and self._plan.to_run:
            from rich.live import Live

            self._live = Live(self._table(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.update(self._table())
            self._live.stop()
            self._live = None

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(markup(text), soft_wrap=True)

    def started(self, cell: Cell) -> None:
        """A cell's process has been started."""
        self._running.add(cell)
        if self._live is None:
            self.note(f"started  {_title(cell)}  ({cell.run.path})")

    def ended(self, outcome: Outcome) -> None:
        """A cell's process has ended."""
        cell = outcome.cell
        self._running.discard(cell)
        self._ended[cell] = outcome
        if self._live is None:
            first = outcome.remark.splitlines()[0] if outcome.remark else ""
            remark = f": {first}" if first else ""
            time = duration(cell.run.status.seconds)
            self.note(f"{outcome.state:<8} {_title(cell)}  after {time}{remark}")

    def stopping(self, count: int) -> None:
        """The user has asked to stop."""
        if count:
            cells = "the running cell" if count == 1 else f"{count} running cells"
            self.note(f"stopping {cells} after a step (Ctrl-C again kills)")

    def refresh(self) -> None:
        """Show progress, where there is a terminal."""
        if self._live is not None:
            self._live.update(self._table())

    def final(self, outcomes: Sequence[Outcome]) -> None:
        """Print the table of all cells with their scores."""
        self._console.print(final_table(outcomes))
        failed = [outcome for outcome in outcomes if outcome.failed]
        for outcome in failed:
            reason = outcome.remark.splitlines()[0] if outcome.remark else outcome.state
            self.note(f"{_title(outcome.cell)}: {reason} ({outcome.cell.run.log_file})")
        if failed:
            self.note(f"{len(failed)} of {len(outcomes)} failed; the same command tries them again")

    def _table(self) -> RenderableType:
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("cell", overflow="fold")
        table.add_column("state", no_wrap=True)
        for heading in ("step", "samples/s", "time", "left"):
            table.add_column(heading, justify="right", no_wrap=True)
        cells = self._plan.cells
        room = max(3, self._console.size.height - _ROWS_KEPT)
        if len(cells) > room:
            active = [cell for cell in cells if cell in self._running]
            bad = [cell for cell, outcome in self._ended.items() if outcome.failed]
            cells = tuple((active + bad)[:room])
        for cell in cells:
            table.add_row(markup(_title(cell)), *self._row(cell))
        table.caption = self._counts()
        return table

    def _row(self, cell: Cell) -> tuple[str, str, str, str, str]:
        if cell in self._ended:
            state = self._ended[cell].state
        elif cell.todo != "run":
            state = cell.run.status.shown
        elif cell in self._running:
            state = cell.run.status.shown
            # Its process is up, but has not got as far as saying so.
            state = "starting" if state == State.PLANNED else state
        else:
            state = "waiting"
        status = cell.run.status
        running = state == State.RUNNING
        rate = f"{status.rate:.1f}" if running and status.rate is not None else "-"
        left = duration(status.eta_seconds) if running else "-"
        return styled(state), progress(status), rate, duration(status.seconds), left

    def _counts(self) -> str:
        counts = Counter(outcome.state for outcome in self._ended.values())
        counts["running"] = len(self._running)
        counts["waiting"] = len(self._plan.to_run) - len(self._ended) - len(self._running)
        return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def final_table(outcomes: Sequence[Outcome]) -> Table:
    """One row a cell: what makes it different, how it ended, its scores, time and place."""
    from rich import box
    from rich.table import Table

    from embedexp.evaluation.table import METRICS

    scores = [
        {(score["task"], score["metric"]): score["value"] for score in run.scores["after"]}
        for run in (Run(outcome.cell.run) for outcome in outcomes)
    ]
    columns = list(dict.fromkeys(key for row in scores for key in row))
    table = Table(box=box.SIMPLE)
    table.add_column("cell", overflow="fold")
    table.add_column("state", no_wrap=True)
    for task, metric in columns:
        table.add_column(markup(f"{task}\n{METRICS.get(metric, metric)}"), justify="right")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("run", overflow="fold")
    for outcome, row in zip(outcomes, scores, strict=True):
        run = outcome.cell.run
        values = [f"{row[key]:.4f}" if key in row else "-" for key in columns]
        kind = run.status.failure if outcome.failed else None
        told = kind is not None and kind is not FailureKind.ERROR
        state = styled(outcome.state) + (f": {kind}" if told else "")
        if outcome.state == State.QUEUED and run.status.state is State.QUEUED:
            job = run.job
            state += f" ({job.shown})" if job is not None else ""
        time = duration(run.status.seconds)
        table.add_row(markup(_title(outcome.cell)), state, *values, time, markup(run.path))
    return table


def _title(cell: Cell) -> str:
    return cell.label or cell.run.name
