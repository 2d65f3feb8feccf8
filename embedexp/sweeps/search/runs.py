"""A search's trials as runs: planned, frozen and launched like those of any multirun."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from embedexp.config.errors import UserError
from embedexp.launch import multirun
from embedexp.launch.handing import hand_over
from embedexp.launch.operate import look
from embedexp.launch.order import Calm, Watch, is_left
from embedexp.launch.outcome import Outcome
from embedexp.launch.plan import frozen
from embedexp.launch.process import CellProcess, thread_variables
from embedexp.launch.snapshot import code_folder
from embedexp.launch.snapshot import variables as code_variables
from embedexp.runs import FailureKind, RunDirectory, State
from embedexp.runs.job import Job
from embedexp.runs.status import now
from embedexp.runs.trial import forget_trial

from ..cells import key_of
from .loop import Result
from .objective import NoValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.launch.plan import Cell
    from embedexp.runs.trial import Trial

    from .objective import Objective

STOP_SECONDS = 120.0
SLURM_POLL_SECONDS = 5.0


class Places(Protocol):
    """Where runs are carried out, some at a time."""

    parallel: int

    def start(self, cell: Cell) -> str | None:
        """Start it; returns why that is impossible, if so."""
        ...

    def state(self, cell: Cell) -> tuple[str, str] | None:
        """The state in which a started run has ended, and a remark; None while it goes on."""
        ...

    def stop(self) -> None:
        """The search ends: stop what runs here after it has saved."""
        ...


class LocalPlaces:
    """Processes of this machine."""

    def __init__(self, parallel: int, study: str, settings: Mapping[str, Any]) -> None:
        self.parallel = parallel
        self._study, self._settings = study, dict(settings)
        self._processes: dict[str, CellProcess] = {}
        self._variables: dict[str, str] | None = None

    def start(self, cell: Cell) -> str | None:
        """Start a process for the run."""
        job = Job("local", str(os.getpid()), multirun=self._study, settings=self._settings)
        job = dataclasses.replace(job, log=str(cell.run.log_file))
        if (problem := hand_over(cell.run, job)) is not None:
            return problem
        if self._variables is None:
            code = code_folder(cell.run.path.parent, frozen=bool(self._settings["snapshot"]))
            self._variables = code_variables(code)
        threads = thread_variables(self.parallel * cell.resources.devices)
        self._processes[cell.run.name] = CellProcess(cell.run, {**self._variables, **threads})
        return None

    def state(self, cell: Cell) -> tuple[str, str] | None:
        """Ask the process."""
        process = self._processes[cell.run.name]
        if process.poll() is None:
            return None
        outcome = Outcome.ended(cell, process)
        del self._processes[cell.run.name]
        return outcome.state, outcome.remark

    def stop(self) -> None:
        """Have all save and stop; after two minutes they are ended."""
        for process in self._processes.values():
            process.interrupt()
        deadline = time.monotonic() + STOP_SECONDS
        try:
            for process in self._processes.values():
                process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for process in self._processes.values():
                process.kill()
                process.settle()


class SlurmPlaces:
    """A cluster: each run is a job of its own, submitted when there is room for it.

    So no job waits for the slowest of a wave, and the next trial knows all that have ended. The
    jobs outlive the search, which finds them again.
    """

    def __init__(
        self, parallel: int, study: str, settings: Mapping[str, Any], typed: Sequence[str]
    ) -> None:
        from embedexp.launch.slurm_cluster import require_client
        from embedexp.launch.slurm_settings import settings_of

        self.parallel, self._study = parallel, study
        self._settings = settings_of(settings, typed)
        require_client()
        self._code: Path | None = None
        self._seen: dict[str, float] = {}
        self._calm = Calm()

    def start(self, cell: Cell) -> str | None:
        """Submit a job for the run."""
        from embedexp.launch.slurm import submit_cell

        if self._code is None:
            self._code = code_folder(cell.run.path.parent, frozen=self._settings.snapshot)
        outcome = submit_cell(cell, self._settings, self._code, self._study)
        return None if outcome.state == State.QUEUED else outcome.remark

    def state(self, cell: Cell) -> tuple[str, str] | None:
        """Ask the run, and SLURM about it, at most every few seconds."""
        name = cell.run.name
        if time.monotonic() - self._seen.get(name, 0.0) < SLURM_POLL_SECONDS:
            return None
        (view,) = look([cell.run]).views
        self._seen[name] = time.monotonic()
        return (view.state, view.remark) if self._calm.ended(view) else None

    def stop(self) -> None:
        """Nothing: the jobs go on, and the search takes them up again."""


class Runs:
    """The runner of a search: composes a trial's runs, starts them, and reads their results.

    Args:
        fixed: Overrides of all trials.
        config_dirs: Further folders with options.
        study: Name of the search: the runs' multirun, and their group in W&B.
        objectives: What is read in a finished run.
        seeds: One run per trial for each of them; None: one, with the seed that it has.
        places: Where runs are carried out.
        launcher: The launcher's name and settings, as they are kept for `retry`.
        trial: What a run is told of its search so that it can be pruned; None: it is not.
        source: The file that defines the search, if there is one.
    """

    def __init__(
        self,
        fixed: Sequence[str],
        config_dirs: Sequence[str | Path],
        study: str,
        objectives: Sequence[Objective],
        seeds: Sequence[int] | None,
        places: Places,
        launcher: tuple[Literal["local", "slurm"], Mapping[str, Any]],
        trial: Callable[[int, Config], Trial] | None = None,
        source: str = "",
    ) -> None:
        self._fixed, self._config_dirs, self._study = list(fixed), config_dirs, study
        self._objectives, self._seeds, self._places = objectives, seeds, places
        self._launcher, self._trial, self._source = launcher, trial, source
        self._cells: dict[str, Cell] = {}
        self._results: dict[str, Result] = {}
        self._started: set[str] = set()
        self._elsewhere = Watch()

    @property
    def parallel(self) -> int:
        """Trials at a time."""
        return self._places.parallel

    def compose(self, overrides: Sequence[str]) -> list[tuple[list[str], Config]]:
        """Each run of a trial: its overrides and its config, valid and with a signature."""
        from embedexp.config import compose

        seeds: list[int | None] = [None] if self._seeds is None else list(self._seeds)
        lists = [
            last_of_each([*self._fixed, *overrides, *([] if seed is None else [f"seed={seed}"])])
            for seed in seeds
        ]
        found = []
        for texts in lists:
            config = compose(texts, self._config_dirs)
            _ = config.signature  # reading what it covers may fail too: better now
            found.append((texts, config))
        return found

    def prepare(self, overrides: Sequence[str], trial: int) -> list[str]:
        """Compose and freeze the trial's runs; see `Runner`."""
        composed = self.compose(overrides)
        configs = [_grouped(config, self._study) for _, config in composed]
        label = " ".join(overrides)
        texts = [texts for texts, _ in composed]
        labels = [label if self._seeds is None else f"{label} {one[-1]}" for one in texts]
        planned = frozen(configs, texts, labels)
        for cell, config in zip(planned.cells, configs, strict=False):
            name = cell.run.name
            # One that another trial has taken up already stays that one's.
            if name not in self._cells or name in self._results:
                self._cells[name] = cell
                self._results.pop(name, None)
                self._started.discard(name)
                if cell.todo == "run" and self._trial is not None:
                    self._trial(trial, config).write(cell.run)
                elif cell.todo == "run":
                    forget_trial(cell.run)  # of this search when it had a pruner, or of another
        self._record(planned.cells)
        return [planned.cells[position].run.name for position in planned.positions]

    def start(self, run: str) -> None:
        """Start a run that has to be; see `Runner`."""
        cell = self._cells[run]
        if run in self._started or cell.todo != "run":
            return
        self._started.add(run)
        if (problem := self._places.start(cell)) is None:
            return
        if Outcome.refused(cell, problem).failed:
            self._results[run] = Result(None, problem)
        else:
            self._cells[run] = dataclasses.replace(cell, todo="elsewhere")

    def result(self, run: str) -> Result | None:
        """How the run has ended; see `Runner`."""
        if run not in self._results:
            cell = self._cells[run]
            if cell.todo == "finished":
                ended: tuple[str, str] | None = (State.FINISHED, "")
            elif cell.todo == "elsewhere":
                ended = self._ended_elsewhere(cell)
            else:
                ended = self._places.state(cell)
            if ended is None:
                return None
            if ended[0] in (State.RUNNING, State.QUEUED):  # another process had been faster
                self._cells[run] = dataclasses.replace(cell, todo="elsewhere")
                return None
            self._results[run] = self._read(cell.run, *ended)
        return self._results[run]

    def stop(self) -> None:
        """Stop what runs here; see `Runner`."""
        self._places.stop()

    def _ended_elsewhere(self, cell: Cell) -> tuple[str, str] | None:
        state, name = self._elsewhere.state(cell.run.path), cell.run.name
        if name in self._started and is_left(cell.run, state):
            self._started.discard(name)
            self._cells[name] = dataclasses.replace(cell, todo="run")
            self.start(name)
            return None
        if state in (State.RUNNING, State.QUEUED):
            return None
        return state, cell.run.status.message or f"another process has left it {state}"

    def _read(self, run: RunDirectory, state: str, remark: str) -> Result:
        if state == State.FINISHED:
            try:
                return Result(tuple(one.read(run) for one in self._objectives))
            except NoValueError as error:
                return Result(None, str(error))
        status = run.status
        kind = status.failure if state == State.FAILED else None
        told = kind.value if kind not in (None, FailureKind.ERROR) else state
        first = next(iter((remark or status.message or "").splitlines()), "")
        # An outcome's remark may begin with the kind already.
        first = first.removeprefix(f"{told}: ")
        return Result(None, f"{told}: {first}" if first else told)

    def _record(self, cells: Sequence[Cell]) -> None:
        """Keep, beside the runs, which of them are the search's: for status, retry and cancel."""
        folder = cells[0].run.path.parent
        file = multirun.file_of(self._study, folder)
        known: tuple[multirun.MultirunCell, ...] = ()
        if file.is_file():
            try:
                known = multirun.read(file).cells
            except UserError:
                known = ()  # a damaged record is written anew
        named = {cell.run: cell for cell in known}
        for cell in cells:
            named[cell.run.name] = multirun.MultirunCell(cell.run.name, cell.label, cell.overrides)
        name, settings = self._launcher
        record = multirun.Multirun(
            self._study, tuple(named.values()), name, dict(settings), now(), self._source
        )
        multirun.write(record, folder)


def last_of_each(overrides: Sequence[str]) -> list[str]:
    """The overrides with only the last one of each key: Hydra takes a group's option only once."""
    last = {key_of(text): position for position, text in enumerate(overrides)}
    return [text for position, text in enumerate(overrides) if last[key_of(text)] == position]


def _grouped(config: Config, study: str) -> Config:
    """The config with the search as W&B's group, unless the user has named another."""
    tracking = config.tracking
    if getattr(tracking, "group", "") is not None:
        return config
    return config.model_copy(update={"tracking": tracking.model_copy(update={"group": study})})
