"""Run the cells of a multirun here: a few processes at a time, none able to hurt another."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.runs import State
from embedexp.runs.job import Job

from .handing import hand_over
from .interrupts import sigterm_as_interrupt
from .order import Order, Standing, Watch, is_left
from .outcome import Outcome
from .plan import Cell, Plan, plan, plan_frozen
from .process import CellProcess, thread_variables
from .screen import Screen
from .snapshot import code_folder
from .snapshot import variables as code_variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from embedexp.runs import RunDirectory

POLL_SECONDS = 0.2
# Time for a step to end and a checkpoint to be written after the request to stop.
STOP_SECONDS = 120.0
_UNDER_WAY = (State.RUNNING, State.QUEUED)


def launch(
    cells: Sequence[Sequence[str]],
    config_dirs: Sequence[str | Path] = (),
    *,
    processes: int = 1,
    snapshot: bool = True,
) -> list[Outcome]:
    """Plan `cells` (lists of overrides), run what is missing, and tell how each one ended.

    Every cell is validated and frozen before the first starts, and with `snapshot` so is the code.
    A failed cell changes nothing for the others. The outcomes are in the order of `cells`.

    Raises:
        UserError: a cell, `processes` or `snapshot` is wrong; nothing was started.
        KeyboardInterrupt: stopped by Ctrl-C or SIGTERM, after all cells were.
    """
    settings = {"processes": processes, "snapshot": snapshot}
    _require(settings)
    planned = plan(cells, config_dirs)
    if planned.cells:
        planned.record("local", settings)
    outcomes = _launch(planned, settings, planned.multirun)
    return [outcomes[position] for position in planned.positions]


def launch_plan(planned: Plan, settings: Mapping[str, Any], source: str = "") -> list[Outcome]:
    """Run what is missing of a plan, and wait for what others run of it.

    `source` is the file that defines it. The outcomes are in the order of its cells.

    Raises:
        UserError: a setting is wrong; nothing was started.
        KeyboardInterrupt: stopped by Ctrl-C or SIGTERM, after all cells were.
    """
    _require(settings)
    if planned.cells:
        planned.record("local", settings, source)
    return _launch(planned, settings, planned.multirun, follow=True)


def launch_frozen(
    runs: Sequence[RunDirectory], labels: Sequence[str], settings: Mapping[str, Any]
) -> list[Outcome]:
    """Run again what is frozen already, as `launch` does with the settings of their jobs.

    Raises:
        UserError: a setting is wrong; nothing was started.
        KeyboardInterrupt: stopped by Ctrl-C or SIGTERM, after all cells were.
    """
    checked = {"processes": 1, "snapshot": True, **settings}
    _require(checked)
    return _launch(plan_frozen(runs, labels), checked, None)


def _require(settings: Mapping[str, Any]) -> None:
    processes, snapshot = settings["processes"], settings["snapshot"]
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise UserError(
            f"hydra.launcher.processes={processes}, but it takes a whole number, 1 or more",
            hint="cells that run at the same time: hydra.launcher.processes=2",
        )
    if not isinstance(snapshot, bool):
        raise UserError(f"hydra.launcher.snapshot={snapshot}, but it takes true or false")


def _launch(
    planned: Plan, settings: Mapping[str, Any], multirun: str | None, *, follow: bool = False
) -> list[Outcome]:
    processes = max(1, min(int(settings["processes"]), len(planned.to_run)))
    with Screen(planned, processes) as screen, sigterm_as_interrupt():
        variables: dict[str, str] = {}
        if planned.to_run:
            code = code_folder(planned.runs_folder, frozen=settings["snapshot"])
            variables = code_variables(code)
        job = Job("local", id=str(os.getpid()), multirun=multirun, settings=dict(settings))
        outcomes = _run_all(planned.cells, processes, variables, job, screen, follow=follow)
        if follow:
            outcomes |= _follow(planned.cells, screen)
    found = [outcomes[cell] for cell in planned.cells]
    screen.final(found)
    return found


def _run_all(
    cells: Sequence[Cell],
    processes: int,
    variables: Mapping[str, str],
    job: Job,
    screen: Screen,
    *,
    follow: bool,
) -> dict[Cell, Outcome]:
    outcomes = {cell: Outcome.unstarted(cell) for cell in cells}
    order, ended = Order(cells), dict[Cell, Outcome]()
    waiting: list[Cell] = []
    # Runs that a process of a killed launcher, or of another one, has got to first.
    taken, watch = dict[Cell, Outcome](), Watch()

    def take(cell: Cell) -> None:
        problem = hand_over(cell.run, dataclasses.replace(job, log=str(cell.run.log_file)))
        if problem is None:
            waiting.append(cell)
        else:
            settle(Outcome.refused(cell, problem))

    def settle(outcome: Outcome) -> None:
        # What is under way, though no process of ours has it, is somebody else's.
        if outcome.state in _UNDER_WAY:
            taken[outcome.cell] = outcome
        else:
            ended[outcome.cell] = outcome
            screen.ended(outcome)

    for cell in cells:
        if cell.todo == "run":
            take(cell)
    running: dict[Cell, CellProcess] = {}
    try:
        while waiting or running or (follow and taken):
            for cell in list(waiting):
                if len(running) >= processes:
                    break
                standing = order.standing(cell, ended)
                if standing is Standing.WAITS:
                    continue
                waiting.remove(cell)
                if _cancelled(cell):
                    settle(Outcome(cell, State.CANCELLED, "cancelled while it waited"))
                    continue
                if isinstance(standing, str):
                    settle(_skipped(cell, standing))
                    continue
                threads = thread_variables(processes * cell.resources.devices)
                running[cell] = CellProcess(cell.run, {**variables, **threads})
                screen.started(cell)
            for cell, process in list(running.items()):
                if process.poll() is not None:
                    del running[cell]
                    settle(Outcome.ended(cell, process))
            for cell in list(taken):
                state = watch.state(cell.run.path)
                if is_left(cell.run, state):
                    del taken[cell]
                    take(cell)  # nobody has it any more
                elif state not in _UNDER_WAY:
                    del taken[cell]
                    settle(_elsewhere(cell, state))
            screen.refresh()
            time.sleep(POLL_SECONDS)
    except BaseException:
        _stop(running, screen)
        raise
    return outcomes | taken | ended


def _elsewhere(cell: Cell, state: str) -> Outcome:
    """How a run has ended that somebody else carried out."""
    return Outcome(cell, state, cell.run.status.message or "ran elsewhere")


def _skipped(cell: Cell, reason: str) -> Outcome:
    """Say that a cell is not started, since what it reads has not come to be."""
    try:
        with cell.run.owned():
            cell.run.skip(reason)
    except UserError as held:
        return Outcome(cell, cell.run.status.shown, str(held))
    return Outcome(cell, State.SKIPPED, reason)


def _follow(cells: Sequence[Cell], screen: Screen) -> dict[Cell, Outcome]:
    """Wait until those have ended that somebody else runs."""
    watch, found = Watch(), dict[Cell, Outcome]()
    there = [cell for cell in cells if cell.todo == "elsewhere"]
    if there:
        screen.note(f"waiting for {len(there)} that another process runs (Ctrl-C ends the waiting)")
    while there:
        for cell in list(there):
            state = watch.state(cell.run.path)
            if state not in _UNDER_WAY:
                there.remove(cell)
                found[cell] = _elsewhere(cell, state)
                screen.ended(found[cell])
        screen.refresh()
        time.sleep(POLL_SECONDS)
    return found


def _cancelled(cell: Cell) -> bool:
    """Whether someone has cancelled a cell before its turn came; then its status says so."""
    if not cell.run.cancel_requested:
        return False
    if cell.run.status.state is not State.CANCELLED:
        with cell.run.owned():
            cell.run.cancel("cancelled while it waited")
    return True


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
