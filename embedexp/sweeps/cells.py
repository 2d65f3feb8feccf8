"""From a sweep to its cells: one for each combination of labels, and each seed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest

from .schema import Entry, Phase, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROW, COLUMN = "row", "column"
JOIN = " · "
ALONE = "run"
"""The stage of a cell that takes only one run."""

_SCOPED = re.compile(r"(?P<stage>[\w -]+):(?P<override>[+~]*[\w./@]+=.*)", re.S)


@dataclass(frozen=True, eq=False)
class Cell:
    """One place of the table and one seed: its labels by axis, and what they mean.

    `row` and `column` are the table's headings; `stages` the runs that it may take, in order, the
    last of which its entries set unless they name another; `shown` the one whose scores count.
    """

    labels: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...]
    row: str
    column: str
    seed: int
    stages: tuple[str, ...]
    shown: str
    phase: Phase | None

    @property
    def name(self) -> str:
        """The labels in one string, without the seed."""
        return JOIN.join(part for part in (self.row, self.column) if part)

    def fits(self, condition: Mapping[str, str]) -> bool:
        """Whether the cell has all labels of `condition` (axis -> label)."""
        own = dict(self.labels)
        return all(own.get(axis) == label for axis, label in condition.items())


@dataclass(frozen=True)
class Scope:
    """What a command line adds to a file: overrides of all runs or of one stage, and the scale."""

    overrides: tuple[str, ...]
    by_stage: tuple[tuple[str, str], ...]
    demo: bool

    @classmethod
    def of(cls, sweep: Sweep, typed: Sequence[str]) -> Scope:
        """Sort what was typed; `STAGE:key=value` is for one stage.

        Raises:
            UserError: it names a stage that the sweep has not, or sets the seed.
        """
        overrides: list[str] = []
        by_stage: list[tuple[str, str]] = []
        for text in typed:
            match = _SCOPED.fullmatch(text)
            if match is None:
                overrides.append(text)
            elif match["stage"] not in sweep.stages:
                best = nearest(match["stage"], sweep.stages)
                raise UserError(
                    f"{text}: this sweep has no stage {match['stage']!r}"
                    + (f"; did you mean {best}?" if best else ""),
                    hint=f"stages: {', '.join(sweep.stages) or 'none, each cell is one run'}",
                )
            else:
                by_stage.append((match["stage"], match["override"]))
        for text in (*overrides, *(override for _, override in by_stage)):
            if key_of(text) == "seed":
                raise UserError(f"{text}: seeds are an axis of a sweep", hint="use --seeds 0,1,2")
        scales = [text for text in (*sweep.base, *overrides) if key_of(text) == "scale"]
        demo = bool(scales) and scales[-1].partition("=")[2] == "demo"
        return cls(tuple(overrides), tuple(by_stage), demo)


def cells(sweep: Sweep) -> list[Cell]:
    """The cells in the table's order, rows first, seeds last.

    Raises:
        UserError: a condition names what is not there, or nothing is left.
    """
    found = [
        _cell(sweep, row, combination, seed)
        for row, combination in _combinations(sweep)
        for seed in sweep.seeds
    ]
    for condition in (*sweep.include, *sweep.exclude):
        _require_known(condition, found)
    kept = [
        cell
        for cell in found
        if (not sweep.include or any(cell.fits(one) for one in sweep.include))
        and not any(cell.fits(one) for one in sweep.exclude)
    ]
    if not kept:
        raise UserError("include and exclude leave no cell", hint="take one of them out")
    return kept


def only(found: Sequence[Cell], labels: Sequence[str]) -> list[Cell]:
    """The cells that have all axes' labels among `labels`, on those axes that these name.

    Headings of rows are an axis too, also where rows come from other axes.

    Raises:
        UserError: no axis has such a label, or no cell has them all.
    """
    known = {label for cell in found for label in (*dict(cell.labels).values(), cell.row)}
    for label in labels:
        if label not in known:
            best = nearest(label, known)
            raise UserError(
                f"--only {label}: no cell has this label"
                + (f"; did you mean {best}?" if best else ""),
                hint=f"labels: {', '.join(sorted(known))}",
            )

    def fits(cell: Cell) -> bool:
        own = {*dict(cell.labels).values(), cell.row}
        for axis in {ROW, *(axis for one in found for axis, _ in one.labels)}:
            there = {dict(one.labels).get(axis) for one in found} | (
                {one.row for one in found} if axis == ROW else set()
            )
            asked = there & set(labels)
            if asked and not own & asked:
                return False
        return True

    kept = [cell for cell in found if fits(cell)]
    if not kept:
        raise UserError(
            f"--only {' --only '.join(labels)}: no cell has all of these labels",
            hint="labels of one axis are alternatives, those of several hold together",
        )
    return kept


def _combinations(sweep: Sweep) -> Iterable[tuple[str, list[tuple[str, str, Entry]]]]:
    """The row's heading, and axis, label and entry of each axis."""
    columns = [(COLUMN, label, entry) for label, entry in sweep.columns.items()]
    axes = [
        [(name, label, entry) for label, entry in labels.items()]
        for name, labels in sweep.axes.items()
    ]
    if sweep.mode == "one_at_a_time":
        first = [axis[0] for axis in axes]
        rows = [("base", first)]
        for position, axis in enumerate(axes):
            for one in axis[1:]:
                changed = [*first[:position], one, *first[position + 1 :]]
                rows.append((f"{one[0]}={one[1]}", changed))
    elif sweep.mode == "zip":
        rows = [
            (JOIN.join(one[1] for one in group), list(group)) for group in zip(*axes, strict=True)
        ]
    else:
        entries = sweep.rows
        if sweep.mode == "chain" and not entries:
            entries = {stage: Entry(show=stage) for stage in sweep.stages}
        own = [[(ROW, label, entry) for label, entry in entries.items()]] if entries else []
        rows = [(JOIN.join(o[1] for o in group), list(group)) for group in product(*own, *axes)]
    for heading, group in rows:
        for column in [[one] for one in columns] or [[]]:
            yield heading, [*group, *column]


def _cell(sweep: Sweep, row: str, combination: list[tuple[str, str, Entry]], seed: int) -> Cell:
    entries = tuple(entry for _, _, entry in combination)
    labels = tuple((axis, label) for axis, label, _ in combination)
    names = tuple(sweep.stages) or (ALONE,)
    for entry in entries:
        if entry.only is not None:
            names = tuple(name for name in names if name in entry.only)
    shows = [entry.show for entry in entries if entry.show is not None]
    phases = [entry.phase for entry in entries if entry.phase is not None]
    column = dict(labels).get(COLUMN, "")
    shown = shows[-1] if shows else names[-1] if names else ""
    if shown not in names:
        raise UserError(f"{row}: the stage {shown!r} is shown and is none of its own")
    return Cell(labels, entries, row, column, seed, names, shown, phases[-1] if phases else None)


def _require_known(condition: Mapping[str, str], found: Sequence[Cell]) -> None:
    by_axis: dict[str, set[str]] = {}
    for cell in found:
        for axis, label in cell.labels:
            by_axis.setdefault(axis, set()).add(label)
    for axis, label in condition.items():
        if axis not in by_axis:
            raise UserError(
                f"include or exclude names the axis {axis!r}, which the sweep has not",
                hint=f"axes: {', '.join(by_axis)}",
            )
        if label not in by_axis[axis]:
            best = nearest(label, by_axis[axis])
            raise UserError(
                f"include or exclude names {axis} {label!r}, which the sweep has not",
                hint=f"did you mean {best}?" if best else f"there are: {', '.join(by_axis[axis])}",
            )


def shared_overrides(sweep: Sweep, scope: Scope) -> list[str]:
    """Overrides of all runs: the file's base, and what was typed."""
    return [*sweep.base, *(sweep.demo.base if scope.demo else []), *scope.overrides]


def overrides_of(cell: Cell, stage: str, sweep: Sweep, scope: Scope) -> list[str]:
    """The overrides of one of the cell's runs, with the names of other runs still in braces.

    Later ones win: base, the demo's base, the stage, the labels, the command line.
    """
    demo = scope.demo
    given = [*sweep.base, *(sweep.demo.base if demo else [])]
    given.append(f"seed={cell.seed}")
    if stage in sweep.stages:
        given += sweep.stages[stage].overrides(demo=demo)
    for entry in cell.entries:
        if stage == cell.stages[-1]:
            given += entry.overrides(demo=demo)
        if stage in entry.stages:
            given += entry.stages[stage].overrides(demo=demo)
    given += scope.overrides
    given += [override for name, override in scope.by_stage if name == stage]
    last = {key_of(text): position for position, text in enumerate(given)}
    return [text for position, text in enumerate(given) if last[key_of(text)] == position]


def key_of(override: str) -> str:
    """What an override sets: two that set the same are one, the later."""
    return override.partition("=")[0].lstrip("+~")
