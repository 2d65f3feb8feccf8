"""Plan a multirun: compose, validate and freeze every cell before anything starts."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from embedexp.config.errors import UserError
from embedexp.config.predecessors import predecessors
from embedexp.config.resources import Resources, resources
from embedexp.runs import RunDirectory, State
from embedexp.runs.status import now

from .multirun import Multirun, MultirunCell, multirun_id, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from embedexp.config import Config

_MOST_ERRORS = 10
_ONE_PROCESS = Resources(nodes=1, devices=1, gpu=False, cpus=1)


@dataclass(frozen=True)
class Cell:
    """One experiment of a multirun, frozen into its run directory.

    `todo` is "run", or why nothing is to be started: "finished" before, or "elsewhere" when a
    live process or job has it already, which `remark` names. `label` holds the overrides in which
    cells differ, `resources` the machines that it needs, `after` the directories of the runs that
    it reads, which must have finished before.
    """

    overrides: tuple[str, ...]
    label: str
    run: RunDirectory
    todo: Literal["run", "finished", "elsewhere"]
    resources: Resources = _ONE_PROCESS
    remark: str = ""
    after: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Distinct cells in order, and for each cell that was asked for the position of its own.

    `multirun` is the id under which the cells are recorded together.
    """

    cells: tuple[Cell, ...]
    positions: tuple[int, ...]
    multirun: str = ""

    @property
    def to_run(self) -> tuple[Cell, ...]:
        """The cells that have to be started."""
        return tuple(cell for cell in self.cells if cell.todo == "run")

    def summary(self) -> str:
        """How many cells there are, and how many of them need nothing, in one line."""
        finished = sum(cell.todo == "finished" for cell in self.cells)
        elsewhere = sum(cell.todo == "elsewhere" for cell in self.cells)
        duplicates = len(self.positions) - len(self.cells)
        parts = [
            f"{len(self.to_run)} to run",
            f"{finished} finished already (rerun=true repeats)" if finished else "",
            f"{elsewhere} queued or running elsewhere" if elsewhere else "",
            f"{duplicates} the same as another" if duplicates else "",
        ]
        noun = "cell" if len(self.positions) == 1 else "cells"
        return f"{len(self.positions)} {noun}: " + ", ".join(part for part in parts if part)

    def record(
        self, launcher: Literal["local", "slurm"], settings: Mapping[str, Any], source: str = ""
    ) -> None:
        """Write down, beside the runs, which cells were launched together and how.

        `source` is the file that defines them, where there is one.
        """
        cells = tuple(MultirunCell(c.run.name, c.label, c.overrides) for c in self.cells)
        if cells:
            multirun = Multirun(self.multirun, cells, launcher, dict(settings), now(), source)
            write(multirun, self.runs_folder)

    @property
    def runs_folder(self) -> Path:
        """The folder in which the multirun is recorded: that of its first run."""
        return self.cells[0].run.path.parent


class PlanError(UserError):
    """Cells that can't be composed, all told at once; nothing has been started."""

    def __init__(self, errors: Sequence[tuple[str, UserError]], cells: int) -> None:
        verb = "is" if len(errors) == 1 else "are"
        noun = "cell" if cells == 1 else "cells"
        what = f"{len(errors)} of {cells} {noun} {verb} wrong; nothing was started"
        super().__init__(what)
        by_text: dict[str, list[str]] = {}
        for label, error in errors:
            by_text.setdefault(str(error), []).append(label)
        lines = [what]
        for text, labels in list(by_text.items())[:_MOST_ERRORS]:
            first = next((label for label in labels if label), "")
            more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
            lines.append(f"[{first}{more}] {text}" if first else text)
        if len(by_text) > _MOST_ERRORS:
            lines.append(f"and {len(by_text) - _MOST_ERRORS} more errors")
        self.args = ("\n".join(lines),)


def plan(
    cells: Sequence[Sequence[str]],
    config_dirs: Sequence[str | Path] = (),
    check: Callable[[Sequence[Config]], None] | None = None,
) -> Plan:
    """Compose and validate all `cells` (lists of overrides), then freeze each into its directory.

    `check` may refuse all of them, by raising, before anything is written.

    Raises:
        PlanError: any cell is wrong; then no directory has been touched.
    """
    labels = differences(cells)
    return frozen(_composed(cells, labels, config_dirs), cells, labels, check)


def frozen(
    configs: Sequence[Config],
    cells: Sequence[Sequence[str]],
    labels: Sequence[str],
    check: Callable[[Sequence[Config]], None] | None = None,
) -> Plan:
    """The plan of composed `configs`, each frozen into its directory; see `plan`."""
    first_of: dict[str, int] = {}
    for position, config in enumerate(configs):
        first_of.setdefault(config.signature, position)
    distinct = list(first_of.values())
    if check is not None:
        check([configs[position] for position in distinct])
    identity = multirun_id(configs[0].name, first_of) if configs else ""
    busy = _busy([RunDirectory.of(configs[position]) for position in distinct])
    made = tuple(
        _freeze(cells[position], labels[position], configs[position], identity, busy)
        for position in distinct
    )
    index = {signature: index for index, signature in enumerate(first_of)}
    return Plan(made, tuple(index[config.signature] for config in configs), identity)


def plan_frozen(runs: Sequence[RunDirectory], labels: Sequence[str]) -> Plan:
    """A plan of runs that are frozen already, to be started again.

    Raises:
        UserError: a run's config can't be read.
    """
    configs = [run.config for run in runs]
    cells = tuple(
        Cell((), label, run, "run", resources(config.compute), after=predecessors(config))
        for run, label, config in zip(runs, labels, configs, strict=True)
    )
    name = runs[0].name.rpartition("-")[0] if runs else ""
    identity = multirun_id(name, (run.signature for run in runs))
    return Plan(cells, tuple(range(len(cells))), identity)


def _composed(
    cells: Sequence[Sequence[str]], labels: Sequence[str], config_dirs: Sequence[str | Path]
) -> list[Config]:
    from embedexp.config import compose
    from embedexp.config.locations import files_held, search_folders

    configs: list[Config] = []
    errors: list[tuple[str, UserError]] = []
    with files_held(search_folders(config_dirs)), _long_lived_objects():
        for overrides, label in zip(cells, labels, strict=True):
            try:
                config = compose(overrides, config_dirs)
                # Reading what the signature covers (data, files) can fail too: better now.
                _ = config.signature
                configs.append(config)
            except UserError as error:
                errors.append((label, error))
    if errors:
        raise PlanError(errors, len(cells))
    return configs


@contextmanager
def _long_lived_objects() -> Iterator[None]:
    """Spare the garbage collector what lives on anyway; composing makes it look often."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _busy(runs: Sequence[RunDirectory]) -> dict[str, str]:
    """Names of the runs that somebody alive has already, and who."""
    from .operate import look

    there = [run for run in runs if run.status_file.exists()]
    return {
        view.run.name: "" if view.job is None else f"{view.state}, {view.job.shown}"
        for view in look(there).views
        if view.active
    }


def option_folders(hydra: Any) -> list[str]:
    """The folders besides the project's own in which Hydra (its config node) found options."""
    return [
        source.path
        for source in hydra.runtime.config_sources
        if source.schema == "file" and source.provider not in ("hydra", "main", "schema")
    ]


def differences(cells: Sequence[Sequence[str]]) -> list[str]:
    """For each cell the overrides that not all cells share, as one string."""
    if not cells:
        return []
    shared = set(cells[0]).intersection(*map(set, cells))
    return [" ".join(item for item in overrides if item not in shared) for overrides in cells]


def _freeze(
    overrides: Sequence[str], label: str, config: Config, multirun: str, busy: Mapping[str, str]
) -> Cell:
    run = RunDirectory.of(config)
    needs, after = resources(config.compute), predecessors(config)
    if run.name in busy:
        return Cell(tuple(overrides), label, run, "elsewhere", needs, busy[run.name], after)
    finished = run.status.state is State.FINISHED
    if finished and not config.rerun:
        return Cell(tuple(overrides), label, run, "finished", needs, after=after)
    run.freeze(_grouped(config, multirun))
    if finished:
        with run.owned():
            run.clear()
    return Cell(tuple(overrides), label, run, "run", needs, after=after)


def _grouped(config: Config, multirun: str) -> Config:
    """The config with the multirun as W&B's group, unless the user has named another."""
    tracking = config.tracking
    if getattr(tracking, "group", "") is not None:
        return config
    return config.model_copy(update={"tracking": tracking.model_copy(update={"group": multirun})})
