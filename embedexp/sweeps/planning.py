"""From cells to runs: compose each, find the runs that cells share, and what is still to do."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest
from embedexp.config.predecessors import planned as known_as_planned
from embedexp.config.schema import GROUPS
from embedexp.runs import RunDirectory, State

from .cells import ALONE, JOIN, Cell, Scope, cells, key_of, only, overrides_of, shared_overrides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.launch.plan import Plan

    from .schema import Sweep

# `{pretrain}` is the run of another stage of the cell, `{row:NAME}` what another row shows.
_REFERENCE = re.compile(r"\{(row:[^{}]+|[\w -]+)\}")
_OF_ROW = "row:"


@dataclass(frozen=True)
class PlannedRun:
    """A run that cells of the table need: what it is called, how it is composed, its directory."""

    label: str
    stage: str
    overrides: tuple[str, ...]
    config: Config

    @property
    def directory(self) -> RunDirectory:
        """Where it is, or will be."""
        return RunDirectory.of(self.config)


@dataclass(frozen=True)
class SweepPlan:
    """Cells with the run that each of them shows, and all runs, predecessors before successors.

    `uses` counts the cells that need a run.
    """

    sweep: Sweep
    scope: Scope
    cells: tuple[tuple[Cell, PlannedRun], ...]
    runs: tuple[PlannedRun, ...]
    uses: dict[str, int]

    @property
    def to_run(self) -> list[PlannedRun]:
        """Runs that have not finished."""
        return [run for run in self.runs if run.directory.status.state is not State.FINISHED]

    @property
    def shared(self) -> list[PlannedRun]:
        """Runs that several cells need."""
        return [run for run in self.runs if self.uses[run.config.signature] > 1]

    def freeze(self, check: Callable[[Sequence[Config]], None] | None = None) -> Plan:
        """The launcher's plan of all runs, each frozen into its directory."""
        from embedexp.launch.plan import frozen

        with known_as_planned(_by_path(self.runs)):
            return frozen(
                [run.config for run in self.runs],
                [run.overrides for run in self.runs],
                [run.label for run in self.runs],
                check,
            )


def plan(
    sweep: Sweep,
    typed: Sequence[str] = (),
    *,
    labels: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    config_dirs: Sequence[str | Path] = (),
) -> SweepPlan:
    """Compose every run of the sweep, and write nothing.

    Args:
        sweep: The file's content.
        typed: Overrides of the command line.
        labels: Only cells with these labels.
        seeds: These seeds in the place of the file's.
        config_dirs: Further folders with options.

    Raises:
        UserError: a run can't be composed, or two cells are the same experiment.
    """
    if seeds is not None:
        sweep = sweep.model_copy(update={"seeds": list(seeds)})
    scope = Scope.of(sweep, typed)
    found = cells(sweep)
    composer = _Composer(sweep, scope, found, config_dirs)
    chosen = only(found, labels) if labels else found
    with composer:
        shown = [(cell, composer.run(cell, cell.shown)) for cell in chosen if composer.tried(cell)]
    composer.require_no_errors(len(chosen))
    composer.require_effect()
    _require_distinct(shown, demo=scope.demo)
    needed = composer.needed_by(chosen)
    runs = tuple(
        replace(run, label=_label(needed[run.config.signature], run.stage))
        for run in composer.in_order
        if run.config.signature in needed
    )
    uses = {signature: len(users) for signature, users in needed.items()}
    return SweepPlan(sweep, scope, tuple(shown), runs, uses)


class _Composer:
    """Composes runs on demand, each after what it reads, each once."""

    def __init__(
        self,
        sweep: Sweep,
        scope: Scope,
        found: Sequence[Cell],
        config_dirs: Sequence[str | Path],
    ) -> None:
        self._sweep, self._scope, self._config_dirs = sweep, scope, config_dirs
        self._cells = {(cell.row, cell.column, cell.seed): cell for cell in found}
        self._made: dict[tuple[Cell, str], PlannedRun] = {}
        self._reads: dict[tuple[Cell, str], list[tuple[Cell, str]]] = {}
        self._under_way: list[tuple[Cell, str]] = []
        self._errors: list[tuple[str, UserError]] = []
        self._planned: dict[str, Config] = {}
        self._shared, self._used = shared_overrides(sweep, scope), set[str]()
        self.in_order: list[PlannedRun] = []

    def __enter__(self) -> _Composer:
        from embedexp.config.locations import files_held, search_folders

        self._stack = ExitStack()
        self._stack.enter_context(files_held(search_folders(self._config_dirs)))
        self._stack.enter_context(known_as_planned(self._planned))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def tried(self, cell: Cell) -> bool:
        """Whether the cell's run can be composed; if not, its error is kept."""
        try:
            self.run(cell, cell.shown)
        except UserError as error:
            self._errors.append((_label([cell], cell.shown), error))
            return False
        return True

    def require_no_errors(self, count: int) -> None:
        """Raise UserError for all cells that can't be composed at once."""
        from embedexp.launch.plan import PlanError

        if self._errors:
            raise PlanError(self._errors, count)

    def run(self, cell: Cell, stage: str) -> PlannedRun:
        """The run of one of the cell's stages."""
        from embedexp.config import compose

        key = (cell, stage)
        if key in self._made:
            return self._made[key]
        if key in self._under_way:
            raise UserError(f"{_label([cell], stage)} reads itself, by way of other runs")
        self._under_way.append(key)
        try:
            overrides = tuple(
                _REFERENCE.sub(lambda match: self._path(cell, stage, match[0], match[1]), text)
                for text in self._in_use(overrides_of(cell, stage, self._sweep, self._scope))
            )
            config = compose(overrides, self._config_dirs)
            made = PlannedRun(_label([cell], stage), stage, overrides, config)
            path = str(made.directory.path.resolve())
        finally:
            self._under_way.pop()
        self._made[key] = made
        if path not in self._planned:
            self._planned[path] = config
            self.in_order.append(made)
        return made

    def _in_use(self, overrides: list[str]) -> list[str]:
        """The overrides without those of all runs that this run's stage has no use for.

        A pipeline's base sets the backbone, which a run that mines does not have.
        """
        if not self._sweep.stages:
            return overrides
        uses = _groups_in_use(overrides, self._config_dirs)
        useless = [text for text in self._shared if _group(text) in set(GROUPS) - uses]
        self._used.update(text for text in self._shared if text not in useless)
        return [text for text in overrides if text not in useless]

    def require_effect(self) -> None:
        """Raise UserError for an override of all runs that none of them had a use for."""
        idle = [text for text in self._shared if text not in self._used]
        if self._sweep.stages and idle:
            raise UserError(f"{idle[0]} has no effect in any stage of this sweep", hint="drop it")

    def needed_by(self, chosen: Sequence[Cell]) -> dict[str, list[Cell]]:
        """The cells that need each run, by its signature."""
        users: dict[str, list[Cell]] = {}
        for cell in chosen:
            reached: dict[str, None] = {}
            left = [(cell, cell.shown)]
            while left:
                key = left.pop()
                reached[self._made[key].config.signature] = None
                left += self._reads.get(key, [])
            for signature in reached:
                users.setdefault(signature, []).append(cell)
        return users

    def _path(self, cell: Cell, stage: str, text: str, name: str) -> str:
        """The directory of the run that `{name}` means, seen from a run of `cell`."""
        if name.startswith(_OF_ROW):
            row = name.removeprefix(_OF_ROW).strip()
            other = self._cells.get((row, cell.column, cell.seed))
            if other is None:
                rows = dict.fromkeys(key[0] for key in self._cells)
                raise _no_such("row", row, list(rows), text)
            target = (other, other.shown)
        elif name in cell.stages:
            if cell.stages.index(name) >= cell.stages.index(stage):
                raise UserError(
                    f"{text}: the stage {stage} comes before {name} and can't read it",
                    hint="write the stages in the order in which they run",
                )
            target = (cell, name)
        elif nearest(name, cell.stages) or name.isidentifier():
            raise _no_such("stage", name, [one for one in cell.stages if one != ALONE], text)
        else:
            return text
        self._reads.setdefault((cell, stage), []).append(target)
        return str(self.run(*target).directory.path)


def _groups_in_use(overrides: Sequence[str], config_dirs: Sequence[str | Path]) -> set[str]:
    """The config groups that the stage uses which `overrides` choose."""
    from embedexp.config import tree
    from embedexp.config.compose import compose_raw
    from embedexp.config.explain import presented

    choosing = [text for text in overrides if "." not in key_of(text) and "{" not in text]
    with presented(choosing, config_dirs):
        chosen = compose_raw(choosing, config_dirs).stage.name
    return set(tree.classes("stage")[chosen].uses)


def _group(override: str) -> str:
    return key_of(override).partition(".")[0].partition("@")[0]


def _no_such(kind: str, name: str, known: Sequence[str], text: str) -> UserError:
    best = nearest(name, known)
    return UserError(
        f"{text}: the sweep has no {kind} {name!r}" + (f"; did you mean {best}?" if best else ""),
        hint=f"{kind}s: {', '.join(known) or 'none'}",
    )


def _label(cells: Sequence[Cell], stage: str) -> str:
    """What a run is called: the headings and the seed that all cells have which need it."""
    every = [
        {cell.row for cell in cells},
        {cell.column for cell in cells},
        {stage if stage != ALONE else ""},
        {f"seed {cell.seed}" for cell in cells},
    ]
    parts = [part for same in every if len(same) == 1 for part in same if part]
    return JOIN.join(dict.fromkeys(parts))


def _by_path(runs: Sequence[PlannedRun]) -> dict[str, Config]:
    return {str(run.directory.path.resolve()): run.config for run in runs}


def _require_distinct(shown: Sequence[tuple[Cell, PlannedRun]], *, demo: bool) -> None:
    """Two cells that are one experiment would be compared with themselves."""
    seen: dict[tuple[str, object], Cell] = {}
    for cell, run in shown:
        first = seen.setdefault((run.config.signature, cell.phase), cell)
        if first is not cell:
            raise UserError(
                f"{first.name!r} and {cell.name!r} are the same experiment"
                + (" at scale=demo" if demo else ""),
                where=f"seed {cell.seed}: {run.config.run_name}",
                hint="scale=demo bounds sizes: give these labels a demo: [overrides] of their own"
                if demo
                else "labels must change something",
            )
