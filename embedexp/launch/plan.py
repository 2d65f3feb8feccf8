"""Plan a multirun: compose, validate and freeze every cell before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from embedexp.config.errors import UserError
from embedexp.runs import RunDirectory, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embedexp.config import Config

_MOST_ERRORS = 10


@dataclass(frozen=True)
class Cell:
    """One experiment of a multirun, frozen into its run directory.

    `todo` is "run", or why nothing is to be started: "finished" before, or "elsewhere" when a
    live process runs it already. `label` holds the overrides in which cells differ.
    """

    overrides: tuple[str, ...]
    label: str
    run: RunDirectory
    todo: Literal["run", "finished", "elsewhere"]


@dataclass(frozen=True)
class Plan:
    """Distinct cells in order, and for each cell that was asked for the position of its own."""

    cells: tuple[Cell, ...]
    positions: tuple[int, ...]

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
            f"{elsewhere} running elsewhere" if elsewhere else "",
            f"{duplicates} the same as another" if duplicates else "",
        ]
        noun = "cell" if len(self.positions) == 1 else "cells"
        return f"{len(self.positions)} {noun}: " + ", ".join(part for part in parts if part)


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


def plan(cells: Sequence[Sequence[str]], config_dirs: Sequence[str | Path] = ()) -> Plan:
    """Compose and validate all `cells` (lists of overrides), then freeze each into its directory.

    Raises:
        PlanError: any cell is wrong; then no directory has been touched.
    """
    from embedexp.config import compose

    labels = differences(cells)
    configs: list[Config] = []
    errors: list[tuple[str, UserError]] = []
    for overrides, label in zip(cells, labels, strict=True):
        try:
            config = compose(overrides, config_dirs)
            # Reading what the signature covers (data, files) can fail too: better now than later.
            _ = config.signature
            configs.append(config)
        except UserError as error:
            errors.append((label, error))
    if errors:
        raise PlanError(errors, len(cells))
    position_of: dict[str, int] = {}
    distinct: list[Cell] = []
    positions: list[int] = []
    for overrides, label, config in zip(cells, labels, configs, strict=True):
        if config.signature not in position_of:
            position_of[config.signature] = len(distinct)
            distinct.append(_freeze(overrides, label, config))
        positions.append(position_of[config.signature])
    return Plan(tuple(distinct), tuple(positions))


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


def _freeze(overrides: Sequence[str], label: str, config: Config) -> Cell:
    run = RunDirectory.of(config)
    status = run.status
    if status.shown == State.RUNNING:
        return Cell(tuple(overrides), label, run, "elsewhere")
    if status.state is State.FINISHED and not config.rerun:
        return Cell(tuple(overrides), label, run, "finished")
    run.freeze(config)
    if status.state is State.FINISHED:
        with run.owned():
            run.clear()
    return Cell(tuple(overrides), label, run, "run")
