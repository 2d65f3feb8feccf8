"""analysis=matryoshka: scores against the number of dimensions that are kept."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from embedexp import evaluation
from embedexp.config.errors import UserError
from embedexp.evaluation.scores import mean
from embedexp.evaluation.table import METRICS

from .report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from embedexp.evaluation import Score

    from .context import Context


def analyse(context: Context) -> Report:
    """The report of `analysis=matryoshka`, and its picture beside it.

    Each width's scores are kept apart as they come, so that the same command goes on after a stop.

    Raises:
        UserError: the model has none of the widths.
    """
    option, most = context.option, context.embedder.width
    asked = sorted(set(option.widths))
    widths = [width for width in asked if width < most]
    if asked[0] > most:
        raise UserError(
            f"analysis.widths begins at {asked[0]}, but the model has {most} dimensions",
            hint=f"name widths up to {most}",
        )
    found: dict[int, list[Score]] = {}
    for width in (*widths, most):
        context.say(f"{width} dimensions")

        def on_task(score: Score) -> None:
            context.told(f"{score.task} at {width} dimensions")  # noqa: B023

        found[width] = evaluation.evaluate(
            context.embedder,
            context.evaluation.model_copy(update={"width": None if width == most else width}),
            on_task=on_task,
            output=context.folder / "matryoshka" / str(width),
            saved_prompts=context.saved_prompts,
        )
    plot(found, context.folder / "matryoshka.png")
    tasks = {score.task: score.metric for score in found[most]}
    rows = [
        [f"{task} ({METRICS.get(metric, metric)})", *_values(found, task)]
        for task, metric in tasks.items()
    ]
    averages = [mean(scores) for scores in found.values()]
    return Report(
        name="matryoshka",
        title="Scores against the dimensions that are kept",
        unit=f"task ({len(tasks)}); one model, so that there is no interval over trainings",
        settings={**context.settings, "evaluation": context.evaluation.model_dump(mode="json")},
        columns=["task", *map(str, found)],
        rows=[*rows, ["mean", *averages]],
        data={
            "widths": list(found),
            "scores": {task: _values(found, task) for task in tasks},
            "mean": averages,
            "metrics": tasks,
        },
        notes=["Vectors are cut to the first dimensions and then normalised."]
        if context.embedder.config.embedding.normalize
        else ["Vectors are cut to the first dimensions."],
    )


def _values(found: Mapping[int, Sequence[Score]], task: str) -> list[float | None]:
    return [
        next((score.value for score in scores if score.task == task), None)
        for scores in found.values()
    ]


def plot(found: Mapping[int, Sequence[Score]], path: Path) -> None:
    """Write a PNG: a curve of the score over the width for each task, and their mean."""
    from matplotlib.ticker import NullLocator, ScalarFormatter

    from embedexp.drawing import drawn, plain
    from embedexp.evaluation.plots import CURVES

    widths = list(found)
    tasks = [score.task for score in found[widths[-1]]]
    with drawn(path, (7.5, 4.6), "Scores against the dimensions that are kept") as figure:
        axes = figure.subplots()
        for task, colour in zip(tasks, cycle(CURVES), strict=False):
            values = [float("nan") if v is None else v for v in _values(found, task)]
            axes.plot(widths, values, "o-", markersize=4, color=colour, label=plain(task))
        if len(tasks) > 1:
            averages = [float("nan") if (m := mean(s)) is None else m for s in found.values()]
            axes.plot(widths, averages, "s--", color="k", linewidth=2, label="mean")
        axes.set_xscale("log", base=2)
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="dimensions", ylabel="score (1 is best)")
        axes.grid(alpha=0.25)
        figure.legend(loc="outside right upper", frameon=False, fontsize=9)
