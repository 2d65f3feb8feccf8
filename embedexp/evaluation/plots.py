"""One picture of a run: how the loss fell, and what that did to the scores."""

from __future__ import annotations

import math
from itertools import cycle
from typing import TYPE_CHECKING, Any

from embedexp.drawing import BLUE, GREY, RED, drawn

from .table import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from .scores import Score

CURVES = (BLUE, "#c77d1e", "#3f7f4f", "#7a4fa3", RED, "#4a4a4a")


def plot_run(
    metrics: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Sequence[Score]],
    path: Path,
    *,
    title: str | None = None,
) -> None:
    """Write a PNG: the loss over steps on the left, scores before and after on the right.

    `metrics` are lines of metrics.jsonl, with `step` and `loss`; `scores` has "before" and "after".
    """
    tasks = {score.task for side in scores.values() for score in side}
    height = max(4.0, 1.6 + 0.42 * len(tasks))
    with drawn(path, (11, height), title) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        _loss(left, _curves(metrics))
        _scores(right, scores.get("before", ()), scores.get("after", ()))


def smoothed(values: Sequence[float], half_life: float) -> list[float]:
    """An exponential average of what came before, without a bias towards zero at the start.

    `half_life` is the number of values after which a value's weight has halved.
    """
    keep = 0.5 ** (1 / max(half_life, 1e-9))
    total = weight = 0.0
    result = []
    for value in values:
        total = keep * total + value
        weight = keep * weight + 1
        result.append(total / weight)
    return result


def _curves(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """Steps and losses by the tasks of their batch: their losses are on different scales."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in metrics:
        loss = line.get("loss")
        if isinstance(loss, int | float) and math.isfinite(loss):
            label = " + ".join(line.get("tasks", ())) or "loss"
            curves.setdefault(label, []).append((line["step"], loss))
    return curves


def _loss(axes: Axes, curves: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """A dot per logged step, and a smoothed line where there are enough."""
    from matplotlib.ticker import MaxNLocator

    axes.set(title="Training loss", xlabel="step", ylabel="loss")
    axes.grid(alpha=0.25)
    if not curves:
        _nothing(axes, "no steps")
        return
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for (label, points), colour in zip(curves.items(), cycle(CURVES)):
        steps, losses = zip(*points, strict=True)
        few = len(points) < 5
        axes.plot(steps, losses, "o", color=colour, markersize=4 if few else 2.5, alpha=0.6)
        average = losses if few else smoothed(losses, len(points) / 12)
        axes.plot(steps, average, color=colour, linewidth=2, label=label.replace("$", r"\$"))
    _legend(axes, min(len(curves), 3))


def _scores(axes: Axes, before: Sequence[Score], after: Sequence[Score]) -> None:
    """A dumbbell per task: from the score before to the score after."""
    axes.set(title="Scores", xlabel="score (1 is best)", xlim=(0, 1))
    axes.grid(axis="x", alpha=0.25)
    by_task = [{score.task: score for score in side} for side in (before, after)]
    firsts = {score.task: score for side in (after, before) for score in side}
    order = list(dict.fromkeys(score.task for side in (before, after) for score in side))
    if not order:
        _nothing(axes, "no scores")
        return
    lowest = min(score.value for side in (before, after) for score in side)
    axes.set_xlim(min(0.0, lowest - 0.05), 1)
    unnamed = {"before", "after"}

    def dot(value: float, row: int, side: str, colour: str) -> None:
        label = side if side in unnamed else None
        unnamed.discard(side)
        axes.plot(value, row, "o", color=colour, zorder=2, label=label)

    for row, task in enumerate(order):
        old, new = (side[task].value if task in side else None for side in by_task)
        if old is not None and new is not None:
            colour = BLUE if new >= old else RED
            axes.plot([old, new], [row, row], color=colour, linewidth=3, alpha=0.5, zorder=1)
            label = f"{new:.3f}  ({new - old:+.3f})"
        else:
            label = f"{new if new is not None else old:.3f}"
        if old is not None:
            dot(old, row, "before", GREY)
        if new is not None:
            dot(new, row, "after", BLUE)
        _beside(axes, max(value for value in (old, new) if value is not None), row, label)
    metrics = [firsts[task].metric for task in order]
    names = [f"{task}\n{METRICS.get(m, m)}" for task, m in zip(order, metrics, strict=True)]
    axes.set_yticks(range(len(order)), [name.replace("$", r"\$") for name in names], fontsize=9)
    axes.set_ylim(len(order) - 0.4, -0.6)
    if before and after:
        _legend(axes, 2)


def _legend(axes: Axes, columns: int) -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns)


def _beside(axes: Axes, value: float, row: int, label: str) -> None:
    """The figures right of a dot, or left of it near the right edge."""
    inside = value > 0.72
    axes.annotate(
        label,
        (value, row),
        xytext=(0, 8) if inside else (8, 0),
        textcoords="offset points",
        ha="right" if inside else "left",
        va="bottom" if inside else "center",
        fontsize=9,
    )


def _nothing(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)
