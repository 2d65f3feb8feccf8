"""The table: our figures beside the published ones, and what they say about the paper's claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest

from .comparing import Compared, compared, noise
from .footnotes import footnotes
from .results import Value, value_of
from .statistics import Estimate, compare, estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .cells import Cell
    from .planning import PlannedRun, SweepPlan
    from .schema import Sweep

Place = tuple[str, str, str]
"""Row, column ("" where the table has none) and measure."""
_MOST = 4  # tasks that a reason names


@dataclass(frozen=True)
class Entry:
    """One place of the table.

    Args:
        values: Our number by seed.
        missing: Why a seed has none.
        ours: Their mean and interval.
        published: The paper's figure, None where it is not known.
        tasks: What the number is the mean of.
    """

    values: Mapping[int, float]
    missing: Mapping[int, str]
    ours: Estimate | None
    published: float | None
    tasks: tuple[str, ...]

    @property
    def difference(self) -> float | None:
        """Ours less the published one, for a table in which they are `comparable`."""
        if self.ours is None or self.published is None:
            return None
        return self.ours.mean - self.published


@dataclass(frozen=True)
class Table:
    """A table whose places are entries, with the verdicts on its comparisons and its footnotes.

    `headings` are pairs of column and measure, in order; `relative_to` names the row to which ours
    are differences, as the published figures are. `comparable`: whether ours and the published
    figures measure the same; at scale=demo tasks, data and models are others, and only differences
    between rows can be set beside the paper's.
    """

    title: str
    question: str
    subtitle: str
    rows: tuple[str, ...]
    headings: tuple[tuple[str, str], ...]
    entries: Mapping[Place, Entry]
    comparisons: tuple[Compared, ...]
    footnotes: tuple[str, ...]
    relative_to: str | None = None
    comparable: bool = True

    @property
    def complete(self) -> bool:
        """Whether every seed of every place has its number."""
        return not any(entry.missing for entry in self.entries.values())


def table(plan: SweepPlan) -> Table:
    """The table of what has finished; the same runs always give the same table.

    Raises:
        UserError: published figures or comparisons name what the table has not.
    """
    sweep = plan.sweep
    values = _over_the_same_tasks(_values(plan))
    rows = tuple(dict.fromkeys(cell.row for cell, _ in plan.cells))
    columns = tuple(dict.fromkeys(cell.column for cell, _ in plan.cells))
    headings = tuple(
        (column, name) for column in columns for name in sweep.measures_at(demo=plan.scope.demo)
    )
    _require_known_labels(sweep)
    relative = sweep.published.difference_to if sweep.published else None
    absolute = {
        place: {seed: v.number for seed, v in by_seed.items() if v.number is not None}
        for place, by_seed in values.items()
    }
    entries = {
        place: _entry(place, by_seed, absolute, sweep, relative)
        for place, by_seed in values.items()
    }
    published = {place: entry.published for place, entry in entries.items()}
    return Table(
        title=sweep.title,
        question=sweep.question,
        subtitle=_subtitle(sweep),
        rows=rows,
        headings=headings,
        entries=entries,
        comparisons=tuple(compared(sweep, rows, headings, absolute, published)),
        footnotes=tuple(footnotes(plan, entries)),
        relative_to=relative,
        comparable=relative is not None or not plan.scope.demo,
    )


def _values(plan: SweepPlan) -> dict[Place, dict[int, Value]]:
    found: dict[Place, dict[int, Value]] = {}
    for cell, run in plan.cells:
        for name, value in _measured(plan, cell, run):
            found.setdefault((cell.row, cell.column, name), {})[cell.seed] = value
    return found


def _measured(plan: SweepPlan, cell: Cell, run: PlannedRun) -> list[tuple[str, Value]]:
    return [
        (name, value_of(run.directory, measure, cell.phase, demo=plan.scope.demo))
        for name, measure in plan.sweep.measures_at(demo=plan.scope.demo).items()
    ]


def _over_the_same_tasks(
    values: Mapping[Place, Mapping[int, Value]],
) -> dict[Place, dict[int, Value]]:
    """The values, but none that lacks a task of its measure: a mean without a hard one is higher.

    Runs differ in their tasks where one could not be measured, or where overrides choose them.
    """
    tasks: dict[str, set[str]] = {}
    for (_, _, measure), by_seed in values.items():
        tasks.setdefault(measure, set()).update(*(value.tasks for value in by_seed.values()))
    return {
        place: {seed: _with_all(value, tasks[place[2]]) for seed, value in by_seed.items()}
        for place, by_seed in values.items()
    }


def _with_all(value: Value, tasks: set[str]) -> Value:
    lacking = sorted(tasks.difference(value.tasks))
    if value.number is None or not lacking:
        return value
    more = f" and {len(lacking) - _MOST} more" if len(lacking) > _MOST else ""
    return Value(None, f"measured without {', '.join(lacking[:_MOST])}{more}")


def _entry(
    place: Place,
    by_seed: Mapping[int, Value],
    absolute: Mapping[Place, Mapping[int, float]],
    sweep: Sweep,
    relative: str | None,
) -> Entry:
    own = absolute[place]
    missing = {seed: value.reason for seed, value in by_seed.items() if value.number is None}
    tasks = next((value.tasks for value in by_seed.values() if value.tasks), ())
    least = noise(sweep, place[2])
    ours = estimate(list(own.values()), least)
    if relative is not None:
        test = compare(own, absolute.get((relative, *place[1:]), {}), least)
        ours = None
        if test is not None and place[0] != relative:
            ours = Estimate(test.difference, test.half, test.pairs or len(own))
    return Entry(own, missing, ours, figure(sweep, place), tasks)


def figure(sweep: Sweep, place: Place) -> float | None:
    """The published figure of a place, or None."""
    if sweep.published is None:
        return None
    node: Any = sweep.published.values
    for label in _levels(sweep, place):
        if not isinstance(node, dict):
            return None
        node = {str(key): value for key, value in node.items()}.get(label)
    return float(node) if isinstance(node, int | float) and not isinstance(node, bool) else None


def _levels(sweep: Sweep, place: Place) -> list[str]:
    """The labels by which published figures are nested: those levels that the table has."""
    row, column, measure = place
    levels = [row, *([column] if column else [])]
    return [*levels, *([measure] if len(sweep.all_measures) > 1 else [])]


def _require_known_labels(sweep: Sweep) -> None:
    """Refuse published figures at places that the table has not.

    Raises:
        UserError: a label is unknown, or a figure stands at the wrong depth.
    """
    from .cells import cells

    if sweep.published is None:
        return
    every = cells(sweep.model_copy(update={"include": [], "exclude": []}))
    rows = list(dict.fromkeys(cell.row for cell in every))
    columns = list(dict.fromkeys(cell.column for cell in every if cell.column))
    measures = list(sweep.all_measures) if len(sweep.all_measures) > 1 else []
    levels = [level for level in (rows, columns, measures) if level]
    _walk(sweep.published.values, levels, [])
    relative = sweep.published.difference_to
    if relative is not None and relative not in rows:
        raise _unknown("published.difference_to", relative, rows)


def _walk(node: Any, levels: list[list[str]], above: list[str]) -> None:
    where = ".".join(["published.values", *above])
    if not levels:
        if node is not None and (isinstance(node, bool) or not isinstance(node, int | float)):
            raise UserError(f"{where} is {node!r}", hint="a figure, or null where none was seen")
        return
    if node is None:
        return
    if not isinstance(node, dict):
        raise UserError(
            f"{where} is {node!r}, but the table has another level there",
            hint=f"one figure for each of: {', '.join(levels[0])}",
        )
    for key, value in node.items():
        if str(key) not in levels[0]:
            raise _unknown(where, str(key), levels[0])
        _walk(value, levels[1:], [*above, str(key)])


def _unknown(where: str, label: str, known: list[str]) -> UserError:
    best = nearest(label, known)
    return UserError(
        f"{where} names {label!r}, which the table has not"
        + (f"; did you mean {best!r}?" if best else ""),
        hint=f"labels there: {', '.join(known)}",
    )


def _subtitle(sweep: Sweep) -> str:
    if sweep.paper is None:
        return ""
    return f"{sweep.paper.name}, {sweep.paper.table}, arXiv {sweep.paper.arxiv}"
