"""Submit the cells of a multirun to SLURM: arrays of like jobs, none able to hide another."""

from __future__ import annotations

import dataclasses
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.config.resources import resources
from embedexp.runs import RunDirectory, State
from embedexp.runs.job import Job, write_job

from .handing import give_back, hand_over
from .operate import look
from .order import Calm, Order, in_rounds, path_of, unmet
from .outcome import Outcome
from .plan import Plan, plan, plan_frozen
from .screen import Screen
from .slurm_cluster import cluster, largest_array, require_client, require_room
from .slurm_script import submit
from .slurm_settings import SlurmSettings, settings_of
from .snapshot import code_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from embedexp.config import Config

    from .plan import Cell

FOLDER = ".jobs"
POLL_SECONDS = 5.0


def launch(
    cells: Sequence[Sequence[str]],
    config_dirs: Sequence[str | Path] = (),
    *,
    settings: Mapping[str, Any],
    typed: Collection[str] | None = None,
) -> list[Outcome]:
    """Plan `cells` (lists of overrides), submit what is missing, and tell how each one stands.

    Every cell is validated, the cluster asked whether it has room for all of them, and config and
    code are frozen before the first job is submitted. An array that can't be submitted changes
    nothing for the others. The outcomes are in the order of `cells`.

    Args:
        cells: Lists of overrides.
        config_dirs: Further folders with options.
        settings: The launcher's parameters.
        typed: Those of them that a profile must not change; None: those that are not null.

    Raises:
        UserError: a cell or a setting is wrong, or SLURM is missing; nothing was submitted.
        KeyboardInterrupt: waiting was ended; the jobs go on.
    """
    checked = settings_of(settings, typed)
    require_client()
    nodes = cluster()

    def check(configs: Sequence[Config]) -> None:
        shapes = sorted({resources(config.compute) for config in configs})
        require_room(nodes, checked, shapes)

    planned = plan(cells, config_dirs, check)
    outcomes = _launch(planned, checked)
    return [outcomes[position] for position in planned.positions]


def room_check(settings: Mapping[str, Any]) -> Callable[[Sequence[Config]], None]:
    """A check of the cells' machines that refuses what the cluster has no room for.

    Raises:
        UserError: a setting is wrong, or SLURM is missing.
    """
    checked = settings_of(settings)
    require_client()
    nodes = cluster()

    def check(configs: Sequence[Config]) -> None:
        require_room(nodes, checked, sorted({resources(config.compute) for config in configs}))

    return check


def launch_plan(planned: Plan, settings: Mapping[str, Any], source: str = "") -> list[Outcome]:
    """Submit what is missing of a plan; `source` is the file that defines it.

    A cell's job starts when those of the cells that it reads have ended well.

    Raises:
        UserError: a setting is wrong, or SLURM is missing; nothing was submitted.
        KeyboardInterrupt: waiting was ended; the jobs go on.
    """
    checked = settings_of(settings)
    require_client()
    return _launch(planned, checked, source=source)


def launch_frozen(
    runs: Sequence[RunDirectory], labels: Sequence[str], settings: Mapping[str, Any]
) -> list[Outcome]:
    """Submit runs that are frozen already, with the settings of their jobs; as `launch` does.

    Raises:
        UserError: a setting is wrong, or SLURM is missing; nothing was submitted.
    """
    checked = settings_of(settings)
    require_client()
    planned = plan_frozen(runs, labels)
    require_room(cluster(), checked, sorted({cell.resources for cell in planned.cells}))
    return _launch(planned, checked, record=False)


def _launch(
    planned: Plan, settings: SlurmSettings, *, record: bool = True, source: str = ""
) -> list[Outcome]:
    screen = Screen(planned, None)
    if record:
        planned.record("slurm", settings.recorded(), source)
    outcomes = {cell: Outcome.unstarted(cell) for cell in planned.cells}
    if planned.to_run:
        code = code_folder(planned.runs_folder, frozen=settings.snapshot)
        size = settings.array_size or largest_array()
        multirun = planned.multirun if record else None
        order = Order(planned.cells)

        def start(ready: Sequence[Cell]) -> None:
            nonlocal outcomes
            groups, refused = _by_dependency(ready, order, outcomes, settings)
            outcomes |= refused
            for given, cells in groups:
                for array in arrays(cells, size):
                    outcomes |= _submit(array, settings, given, code, planned.multirun, multirun)

        in_rounds(planned.to_run, order, start)
    submitted = [cell for cell in planned.to_run if outcomes[cell].state == State.QUEUED]
    ids = sorted({outcomes[cell].remark.split("_")[0] for cell in submitted})
    if submitted:
        screen.note(f"submitted {len(submitted)} of {len(planned.to_run)}: SLURM {', '.join(ids)}")
    if settings.wait and submitted:
        screen.note("Ctrl-C ends the waiting, not the jobs")
        with screen:
            outcomes |= _wait(submitted, screen)
    found = [outcomes[cell] for cell in planned.cells]
    screen.final(found)
    if submitted and not settings.wait:
        name = planned.multirun if record else ""
        screen.note(f"follow them: python -m embedexp status {name}".rstrip())
    return found


def _by_dependency(
    cells: Sequence[Cell],
    order: Order,
    outcomes: Mapping[Cell, Outcome],
    settings: SlurmSettings,
) -> tuple[list[tuple[SlurmSettings, list[Cell]]], dict[Cell, Outcome]]:
    """The cells by the jobs that they wait for, and the outcome of those that can't be started.

    Cells that wait for other jobs can't share an array: all of an array waits for the same.
    """
    groups: dict[str | None, list[Cell]] = {}
    refused: dict[Cell, Outcome] = {}
    for cell in cells:
        jobs, problem = _jobs_before(cell, order, outcomes)
        if problem is not None:
            refused[cell] = _skip(cell, problem)
            continue
        after = f"afterok:{':'.join(jobs)}" if jobs else None
        wanted = [part for part in (settings.dependency, after) if part]
        groups.setdefault(",".join(wanted) or None, []).append(cell)
    made = [
        (settings.model_copy(update={"dependency": dependency}), some)
        for dependency, some in groups.items()
    ]
    return made, refused


def _jobs_before(
    cell: Cell, order: Order, outcomes: Mapping[Cell, Outcome]
) -> tuple[list[str], str | None]:
    """SLURM's ids of the jobs that `cell` waits for, or why it can't be started."""
    own = {path_of(one.run): one for one in order.own(cell)}
    jobs: list[str] = []
    for path in cell.after:
        one = own.get(str(path))
        if one is not None:
            if outcomes[one].state != State.QUEUED:
                return [], unmet(one.label or one.run.name, outcomes[one].state)
            jobs.append(outcomes[one].remark)
            continue
        run = RunDirectory(path)
        (seen,) = look([run]).views
        if seen.active and seen.job is not None and seen.job.launcher == "slurm" and seen.job.id:
            jobs.append(seen.job.id)
        elif seen.state != State.FINISHED:
            here = " by a process that SLURM does not know" if seen.active else ""
            return [], unmet(run.name, f"{seen.state}{here}")
    return list(dict.fromkeys(jobs)), None


def _skip(cell: Cell, reason: str) -> Outcome:
    try:
        with cell.run.owned():
            cell.run.queue()
            cell.run.skip(reason)
    except (UserError, OSError) as error:
        return Outcome(cell, cell.run.status.shown, str(error))
    return Outcome(cell, State.SKIPPED, reason)


def arrays(cells: Sequence[Cell], size: int) -> list[list[Cell]]:
    """The cells in groups of at most `size` that need the same machines."""
    ordered = sorted(cells, key=lambda cell: cell.resources)
    groups = [list(group) for _, group in groupby(ordered, key=lambda cell: cell.resources)]
    return [group[start : start + size] for group in groups for start in range(0, len(group), size)]


def _submit(
    array: Sequence[Cell],
    settings: SlurmSettings,
    given: SlurmSettings,
    code: Path,
    name: str,
    multirun: str | None,
) -> dict[Cell, Outcome]:
    """Submit one array; each run is on record before, and knows its job after.

    `given` are the settings with the jobs that this array waits for; a retry finds its own.
    """
    outcomes: dict[Cell, Outcome] = {}
    job = Job("slurm", multirun=multirun, settings=settings.recorded())
    ready = []
    for cell in array:
        problem = hand_over(cell.run, job)
        if problem is None:
            ready.append(cell)
        else:
            outcomes[cell] = Outcome(cell, cell.run.status.shown, problem)
    if not ready:
        return outcomes
    folder = array[0].run.path.parent.absolute() / FOLDER / name
    jobs = submit([cell.run for cell in ready], ready[0].resources, given, code, folder, name)
    if isinstance(jobs, str):
        for cell in ready:
            give_back(cell.run, jobs)
            outcomes[cell] = Outcome(cell, State.FAILED, jobs)
        return outcomes
    for cell, (identity, log) in zip(ready, jobs, strict=True):
        known = dataclasses.replace(cell.run.job or job, id=identity, log=str(log))
        write_job(cell.run.job_file, known)
        outcomes[cell] = Outcome(cell, State.QUEUED, identity)
    return outcomes


def _wait(cells: Sequence[Cell], screen: Screen) -> dict[Cell, Outcome]:
    """Watch until no cell is queued or runs; whatever SLURM says of its end is written down."""
    waiting = {cell.run.name: cell for cell in cells}
    calm = Calm()
    outcomes: dict[Cell, Outcome] = {}
    for cell in cells:
        screen.started(cell)
    while waiting:
        for view in look([cell.run for cell in waiting.values()]).views:
            cell = waiting[view.run.name]
            if not calm.ended(view):
                continue
            del waiting[view.run.name]
            outcomes[cell] = Outcome(cell, view.state, view.remark)
            screen.ended(outcomes[cell])
        screen.refresh()
        if waiting:
            time.sleep(POLL_SECONDS)
    return outcomes


def submit_cell(cell: Cell, settings: SlurmSettings, code: Path, multirun: str) -> Outcome:
    """Submit one cell of a plan without a word: queued, with the job's id, or why it could not be.

    `code` is the folder of the code that it runs.
    """
    (outcome,) = _submit([cell], settings, settings, code, multirun, multirun).values()
    return outcome
