"""Charts of the table and of its comparisons, and the scores behind them."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from embedexp.runs import Run, State

from ..cells import JOIN
from ..formats import number
from ..results import POINTS
from .charts import TOGETHER, differences, dots, levels
from .tables import Cell, Grid, Heading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..comparing import Compared
    from ..planning import SweepPlan
    from ..statistics import Estimate
    from ..table import Entry, Table
    from .charts import Point
    from .svg import Chart

_ROWS = 10  # names on a chart that has them on its side
_PHASES = ("before", "after")


def levels_charts(made: Table) -> list[Chart]:
    """Ours, and the paper's figures beside them, for each measure that has any."""
    found: list[Chart] = []
    columns = list(dict.fromkeys(column for column, _ in made.headings))
    known = any(entry.published is not None for entry in made.entries.values())
    for measure in dict.fromkeys(measure for _, measure in made.headings):
        for whose in ("ours", "paper"):
            if len(columns) > 1:
                some = list(_along(made, columns, measure, whose, len(found)))
            else:
                some = list(_beside(made, columns[0], measure, whose, len(found)))
            for one in some:
                one.group = measure if known else ""
            found += some
    return found


def _caption(measure: str, whose: str, part: str) -> str:
    told = "ours, mean over seeds with 95% interval" if whose == "ours" else "as published"
    return f"{measure}: {told}{part}"


def _axis(made: Table, measure: str) -> str:
    return f"{measure}, difference to {made.relative_to}" if made.relative_to else measure


def _along(
    made: Table, columns: Sequence[str], measure: str, whose: str, count: int
) -> Iterator[Chart]:
    for part, names in _parts(made.rows, TOGETHER):
        rows = {}
        for place, row in names:
            values = [_value(made.entries.get((row, column, measure)), whose) for column in columns]
            if any(value is not None for value in values):
                rows[row] = (place, values)
        if rows:
            key = f"levels-{count}-{whose}-{names[0][0]}"
            axis = _axis(made, measure)
            yield levels(key, _caption(measure, whose, part), columns, rows, axis)


def _value(entry: Entry | None, whose: str) -> Estimate | float | None:
    if entry is None:
        return None
    return entry.ours if whose == "ours" else entry.published


def _beside(made: Table, column: str, measure: str, whose: str, count: int) -> Iterator[Chart]:
    points: dict[str, Point] = {}
    for row in made.rows:
        entry = made.entries.get((row, column, measure))
        if entry is None:
            continue
        if whose == "paper" and entry.published is not None:
            points[row] = (row, entry.published, None, ())
        elif whose == "ours" and entry.ours is not None:
            # Where ours is a difference to another row, single values are on another scale.
            seeds = [] if made.relative_to else list(entry.values.values())
            points[row] = (row, entry.ours.mean, entry.ours.half, seeds)
    for part, names in _parts(list(points), _ROWS):
        key = f"levels-{count}-{whose}-{names[0][0]}"
        chosen = [points[row] for _, row in names]
        caption = _caption(measure, whose, part)
        signed, paper = made.relative_to is not None, whose == "paper"
        yield dots(key, caption, chosen, _axis(made, measure), paper=paper, signed=signed)


def _parts(names: Sequence[str], most: int) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """Names with their position, so many at a time, and what to say of a part."""
    every = list(enumerate(names))
    for start in range(0, len(every), most):
        some = every[start : start + most]
        told = f" ({some[0][0] + 1} to {some[-1][0] + 1} of {len(every)})"
        yield told if len(every) > most else "", some


def differences_charts(made: Table) -> list[Chart]:
    """Our difference with its interval beside the paper's, for each comparison."""
    by_measure: dict[str, list[Compared]] = {}
    measures = list(dict.fromkeys(measure for _, measure in made.headings))
    for one in made.comparisons:
        if one.test is not None or one.published is not None:
            by_measure.setdefault(_measure(one, measures), []).append(one)
    found: list[Chart] = []
    for measure, every in by_measure.items():
        for start in range(0, len(every), _ROWS):
            some = every[start : start + _ROWS]
            told = f" ({start + 1} to {start + len(some)} of {len(every)})"
            caption = f"{measure}: differences{told if len(every) > _ROWS else ''}"
            key = f"differences-{len(found)}"
            columns = [one.where.removesuffix(measure).removesuffix(JOIN) for one in some]
            found.append(differences(key, caption, some, measure, columns))
    return found


def _measure(one: Compared, measures: Sequence[str]) -> str:
    """The measure of a comparison: the end of its place, where the table has several."""
    for measure in sorted(measures, key=len, reverse=True):
        if one.where == measure or one.where.endswith(JOIN + measure):
            return measure
    return measures[0]


def scores(plan: SweepPlan) -> list[Grid]:
    """A table for each phase: tasks along, cells down; means over seeds in points."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {phase: {} for phase in _PHASES}
    seen: set[tuple[str, str]] = set()
    for cell, run in plan.cells:
        if run.directory.status.state is not State.FINISHED:
            continue
        everything = Run(run.directory).scores
        for phase in _PHASES:
            # Cells that show one run before and after training have one row in each table.
            if cell.phase not in (None, phase) or (phase, run.config.signature) in seen:
                continue
            seen.add((phase, run.config.signature))
            for score in everything[phase]:
                by_task = found[phase].setdefault(cell.name, {})
                by_task.setdefault(score["task"], []).append(POINTS * score["value"])
    return [_scores(phase, cells) for phase, cells in found.items() if cells]


def _scores(phase: str, cells: dict[str, dict[str, list[float]]]) -> Grid:
    tasks = list(dict.fromkeys(task for by_task in cells.values() for task in by_task))
    rows = [
        [
            Cell(name),
            *(Cell(number(fmean(by_task[t]) if t in by_task else None), "number") for t in tasks),
        ]
        for name, by_task in cells.items()
    ]
    headings = [Heading("cell"), *(Heading(task, kind="number") for task in tasks)]
    return Grid(f"{phase.capitalize()} training", [headings], rows)
