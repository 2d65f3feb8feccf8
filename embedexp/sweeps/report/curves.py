"""What runs recorded step by step, as curves: a mean over seeds, with the range between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.evaluation.plots import smoothed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .lines import Line

POINTS = 80  # of a curve on the page: more can't be told apart
_SMOOTHED = 12  # half-lives of the smoothing on a curve

Row = Mapping[str, Any]
Reader = Callable[[Row], Iterable[tuple[str, Any]]]
"""From a line of metrics.jsonl to its figures, each with the chart that it belongs on."""


@dataclass(frozen=True)
class Curve:
    """A line's mean over seeds, and the lowest and highest seed, at some steps; `[n]` each.

    `place` is the line's among all, which gives it the same colour on every chart.
    """

    name: str
    place: int
    steps: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    seeds: int


@dataclass(frozen=True)
class Recorded:
    """A line's runs and what each wrote down, read once for all charts."""

    line: Line
    rows: Sequence[Sequence[Row]]


def record(lines: Iterable[Line]) -> list[Recorded]:
    """What the runs of each line have recorded; those that recorded nothing are left out."""
    found = []
    for line in lines:
        rows = [rows for run in line.directories() if (rows := run.metrics.read())]
        if rows:
            found.append(Recorded(line, rows))
    return found


def curves(
    recorded: Iterable[Recorded], reader: Reader, *, smooth: bool = False
) -> dict[tuple[str, str], list[Curve]]:
    """Curves by chart and facet, in the order in which they come."""
    found: dict[tuple[str, str], list[Curve]] = {}
    places: dict[str, int] = {}
    for one in recorded:
        place = places.setdefault(one.line.name, len(places))
        by_chart: dict[str, list[dict[int, float]]] = {}
        for rows in one.rows:
            for name, series in _series(rows, reader).items():
                by_chart.setdefault(name, []).append(series)
        for name, all_seeds in by_chart.items():
            curve = _over_seeds(one.line.name, place, all_seeds, smooth=smooth)
            if curve is not None:
                found.setdefault((name, one.line.facet), []).append(curve)
    return found


def _series(rows: Sequence[Row], reader: Reader) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        step = row.get("step")
        if isinstance(step, bool) or not isinstance(step, int):
            continue
        for name, value in reader(row):
            if isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, {})[step] = float(value)
    return found


def _over_seeds(
    name: str, place: int, all_seeds: Sequence[Mapping[int, float]], *, smooth: bool
) -> Curve | None:
    """Over the range of steps that all seeds reached: a mean over others there would jump.

    Seeds need not have the same steps, since a batch's tasks may depend on the seed; between its
    own a seed's value is interpolated.
    """
    import numpy as np

    first = max(min(series) for series in all_seeds)
    last = min(max(series) for series in all_seeds)
    own = sorted({step for series in all_seeds for step in series if first <= step <= last})
    if not own:
        return None
    chosen = {round(n) for n in np.linspace(0, len(own) - 1, min(POINTS, len(own)))}
    steps = [own[n] for n in sorted(chosen)]
    values = []
    for series in all_seeds:
        at = sorted(series)
        level = [series[step] for step in at]
        if smooth and len(at) >= 5:
            level = smoothed(level, len(at) / _SMOOTHED)
        values.append(np.interp(steps, at, level))
    columns = np.array(values)
    return Curve(
        name,
        place,
        steps,
        columns.mean(0).tolist(),
        columns.min(0).tolist(),
        columns.max(0).tolist(),
        len(all_seeds),
    )


def losses(row: Row) -> Iterable[tuple[str, Any]]:
    """The loss, apart for each kind of batch: tasks' losses are on different scales."""
    tasks = row.get("tasks")
    told = " + ".join(map(str, tasks)) if isinstance(tasks, list) else ""
    yield f"Loss, batches of {told}" if told else "Loss", row.get("loss")


def terms(row: Row) -> Iterable[tuple[str, Any]]:
    """The parts that a loss of several is the sum of."""
    parts = row.get("terms")
    if isinstance(parts, dict) and len(parts) > 1:
        for name, value in parts.items():
            yield f"Term of the loss: {name.replace('_', ' ')}", value


def optimisation(row: Row) -> Iterable[tuple[str, Any]]:
    """How the optimizer moved."""
    yield "Gradient norm", row.get("gradient_norm")
    yield "Learning rate", row.get("learning_rate")


def routing(row: Row) -> Iterable[tuple[str, Any]]:
    """How evenly routers spread tokens, as means over layers."""
    router = row.get("router")
    if isinstance(router, dict):
        yield "Busiest expert's share of the tokens", router.get("max_load")
        yield "Idlest expert's share of the tokens", router.get("min_load")


def hardness(row: Row) -> Iterable[tuple[str, Any]]:
    """How hard dynamic negatives were, and how many of them were replaced."""
    negatives = row.get("negatives")
    if isinstance(negatives, dict):
        yield "Mean cosine of queries and negatives", negatives.get("hardness")
        judged = negatives.get("judged")
        if isinstance(judged, int | float) and judged > 0:
            replaced = negatives.get("replaced")
            if isinstance(replaced, int | float):
                yield "Share of judged negatives replaced", replaced / judged
