"""Run the cells of a multirun here: a few processes at a time, none able to hurt another."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from embedexp.config.errors import UserError

from .outcome import Outcome
from .plan import Cell, plan
from .process import CellProcess, thread_variables
from .screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

POLL_SECONDS = 0.2
# Time for a step to end and a checkpoint to be written after the request to stop.
STOP_SECONDS = 120.0


def launch(
    cells: Sequence[Sequence[str]],
    config_dirs: Sequence[str | Path] = (),
    *,
    processes: int = 1,
) -> list[Outcome]:
    """Plan `cells` (lists of overrides), run what is missing, and tell how each one ended.

    Every cell is validated and frozen before the first starts. A failed cell changes nothing for
    the others. The outcomes are in the order of `cells`.

    Raises:
        UserError: a cell or `processes` is wrong; nothing was started.
        KeyboardInterrupt: stopped by Ctrl-C or SIGTERM, after all cells were.
    """
    if not isinstance(processes, int) or processes < 1:
        raise UserError(
            f"hydra.launcher.processes={processes}, but it takes a whole number, 1 or more",
            hint="cells that run at the same time: hydra.launcher.processes=2",
        )
    planned = plan(cells, config_dirs)
    processes = max(1, min(processes, len(planned.to_run)))
    with Screen(planned, processes) as screen, _sigterm_as_interrupt():
        outcomes = _run_all(planned.cells, processes, screen)
    screen.final(list(outcomes.values()))
    return [outcomes[planned.cells[position]] for position in planned.positions]


def _run_all(cells: Sequence[Cell], processes: int, screen: Screen) -> dict[Cell, Outcome]:
    outcomes = {cell: Outcome.unstarted(cell) for cell in cells}
    waiting = deque(cell for cell in cells if cell.todo == "run")
    running: dict[Cell, CellProcess] = {}
    variables = thread_variables(processes)
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                cell = waiting.popleft()
                running[cell] = CellProcess(cell.run, variables)
                screen.started(cell)
            for cell, process in list(running.items()):
                if process.poll() is not None:
                    del running[cell]
                    outcomes[cell] = Outcome.ended(cell, process)
                    screen.ended(outcomes[cell])
            screen.refresh()
            time.sleep(POLL_SECONDS)
    except BaseException:
        _stop(running, screen)
        raise
    return outcomes


def _stop(running: dict[Cell, CellProcess], screen: Screen) -> None:
    screen.stopping(len(running))
    for process in running.values():
        process.interrupt()
    deadline = time.monotonic() + STOP_SECONDS
    try:
        for process in running.values():
            process.wait(max(0.0, deadline - time.monotonic()))
    except KeyboardInterrupt:
        screen.note("killing")
    for cell, process in running.items():
        process.kill()
        process.settle()
        screen.note(f"{cell.run.path}: {cell.run.status.shown}")
    screen.note("the same command goes on from here")


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """A request to end, from a scheduler or `kill`, stops the cells as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
