"""What a run has measured: the value of a measure, or why there is none."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from embedexp.config import catalogue
from embedexp.config.errors import nearest
from embedexp.runs import Run, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.runs import RunDirectory

    from .schema import Figure, Measure, Phase

POINTS = 100.0
"""Scores are fractions; tables show points, as the papers do."""


@dataclass(frozen=True)
class Value:
    """A number and, for scores, the tasks that it is the mean of; without number, the reason."""

    number: float | None
    reason: str = ""
    tasks: tuple[str, ...] = ()


def value_of(run: RunDirectory, measure: Measure, phase: Phase | None, *, demo: bool) -> Value:
    """The value of `measure` in a finished run: a mean of scores in points, or a figure as it is.

    `phase` overrules the measure's own.
    """
    status = run.status
    if status.state is not State.FINISHED:
        there = run.config_file.exists()
        told = (status.message or "").strip().splitlines()
        return Value(None, ": ".join([status.shown if there else "not run", *told[:1]]))
    if measure.figure is not None:
        return _figure(run, measure.figure)
    chosen = measure.selection(demo=demo)
    phase = phase or measure.phase
    scores = Run(run).scores[phase]
    if not scores:
        return Value(None, f"no scores {phase} training")
    tasks_named = chosen.tasks
    if chosen.benchmark is not None:
        benchmark = catalogue.tasks_of(chosen.benchmark)
        if benchmark is None:
            return Value(None, f"{chosen.benchmark} is no benchmark that is known here")
        tasks_named = list(benchmark)
    found = _selected(scores, tasks_named, chosen.types)
    if isinstance(found, str):
        return Value(None, found)
    other = [score for score in found if measure.metric not in (None, score["metric"])]
    if other:
        first = other[0]
        return Value(None, f"{first['task']} has {first['metric']}, not {measure.metric}")
    tasks = tuple(sorted(score["task"] for score in found))
    if measure.average == "types":
        by_type: dict[str, list[float]] = {}
        for score in found:
            by_type.setdefault(score["type"], []).append(score["value"])
        return _checked(fmean(fmean(values) for values in by_type.values()), tasks)
    return _checked(fmean(score["value"] for score in found), tasks)


def _checked(value: float, tasks: tuple[str, ...]) -> Value:
    if not math.isfinite(value):
        return Value(None, f"the score is {value}")
    return Value(value * POINTS, tasks=tasks)


def _selected(
    scores: Sequence[dict[str, Any]], tasks: Sequence[str] | None, types: Sequence[str] | None
) -> list[dict[str, Any]] | str:
    """The scores of the named tasks or types, all if none is named; or what is missing."""
    if tasks is not None:
        by_task = {score["task"]: score for score in scores}
        for task in tasks:
            if task not in by_task:
                best = nearest(task, by_task)
                return f"no score for {task}" + (f"; did you mean {best}?" if best else "")
        return [by_task[task] for task in tasks]
    if types is not None:
        for kind in types:
            if all(score["type"] != kind for score in scores):
                there = ", ".join(sorted({score["type"] for score in scores}))
                return f"no task of type {kind}; there are {there}"
        return [score for score in scores if score["type"] in types]
    return list(scores)


def _figure(run: RunDirectory, figure: Figure) -> Value:
    try:
        node: Any = json.loads((run.path / figure.file).read_bytes())
    except FileNotFoundError:
        return Value(None, f"it left no {figure.file}")
    except (OSError, ValueError) as error:
        return Value(None, f"{figure.file} can't be read: {error}")
    for part in figure.key.split("."):
        if isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict) and part in node:
            node = node[part]
        else:
            return Value(None, f"{figure.file} holds no {figure.key}")
    if isinstance(node, bool) or not isinstance(node, int | float) or not math.isfinite(node):
        return Value(None, f"{figure.key} in {figure.file} is no number")
    return Value(float(node))
