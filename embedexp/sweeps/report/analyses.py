"""Sections from analysis/*.json: similarity of tasks, Matryoshka widths, and any other figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from embedexp.evaluation.analysis import read
from embedexp.evaluation.analysis.report import spell

from . import charts
from .tables import plain_grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embedexp.evaluation.analysis import Report

    from .lines import Line
    from .svg import Chart
    from .tables import Grid

    Found = list[tuple[str, list[Report]]]
    """For each line its name and the reports of its seeds."""

Part = tuple[str, str, "list[str]", "list[Chart]", "list[Grid]"]
_TABLES = 60
_ROWS = 10


def parts(lines: Sequence[Line]) -> Iterator[Part]:
    """A section for each kind of analysis that runs have left."""
    by_name: dict[str, Found] = {}
    for line in lines:
        own: dict[str, list[Report]] = {}
        for run in line.directories():
            for report in read(run.analysis):
                own.setdefault(report.name, []).append(report)
        for name, reports in own.items():
            by_name.setdefault(name, []).append((line.full_name, reports))
    for name, found in by_name.items():
        first = found[0][1][0]
        words = [f"Unit: {first.unit}.", " ".join(first.notes)] if first.notes else [
            f"Unit: {first.unit}."
        ]  # fmt: skip
        tables = [
            plain_grid(
                f"{line}, run {position + 1} of {len(reports)}" if len(reports) > 1 else line,
                [str(heading) for heading in report.columns],
                [[spell(cell) for cell in row] for row in report.rows],
            )
            for line, reports in found
            for position, report in enumerate(reports)
        ]
        if len(tables) > _TABLES:
            words.append(f"Tables are shown for the first {_TABLES} of {len(tables)} runs.")
        drawn = list(_DRAWINGS[name](found)) if name in _DRAWINGS else []
        key = "analysis-" + "".join(c if c.isalnum() else "-" for c in name)
        heading = name.replace("_", " ").capitalize()
        yield key, heading, [f"{first.title}.", *words], drawn, tables[:_TABLES]


def _task_similarity(found: Found) -> Iterator[Chart]:
    """For each pair of instructions the distribution of cosines, one box a cell."""
    pairs: dict[str, dict[str, list[float]]] = {}
    for line, reports in found:
        for report in reports:
            for pair in _list(report.data.get("pairs")):
                tasks = " & ".join(map(str, _list(pair.get("tasks")))).replace("_", " ")
                for name, key in ((line, "cosines"), (f"{line}, baseline", "baseline_cosines")):
                    values = _numbers(pair.get(key))
                    if values:
                        pairs.setdefault(tasks, {}).setdefault(name, []).extend(values)
    count = 0
    for tasks, cells in pairs.items():
        names = list(cells)
        for start in range(0, len(names), _ROWS):
            some = {name: cells[name] for name in names[start : start + _ROWS]}
            yield charts.boxes(f"similarity-{count}", tasks, some, "cosine of a text's two vectors")
            count += 1


def _matryoshka(found: Found) -> Iterator[Chart]:
    """The mean score, then each task's, against the dimensions kept."""
    by_task: dict[str, dict[str, dict[int, list[float]]]] = {}
    for line, reports in found:
        for report in reports:
            scores = report.data.get("scores")
            every = {"Mean over tasks": report.data.get("mean")}
            every |= scores if isinstance(scores, dict) else {}
            for task, values in every.items():
                for width, value in zip(
                    _list(report.data.get("widths")), _list(values), strict=False
                ):
                    if _is_number(value):
                        own = by_task.setdefault(task, {}).setdefault(line, {})
                        own.setdefault(int(width), []).append(float(value))
    count = 0
    for task, lines in by_task.items():
        names = list(lines)
        for start in range(0, len(names), charts.TOGETHER):
            some = {name: lines[name] for name in names[start : start + charts.TOGETHER]}
            yield charts.widths(f"widths-{count}", task, some, "score (1 is best)")
            count += 1


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers(value: Any) -> list[float]:
    return [float(one) for one in _list(value) if _is_number(one)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_DRAWINGS = {"task_similarity": _task_similarity, "matryoshka": _matryoshka}
