"""Scores before and after training, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .scores import Failure, Score, mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

METRICS = {
    "accuracy": "accuracy",
    "cosine_spearman": "Spearman",
    "f1": "F1",
    "map_at_1000": "MAP",
    "max_ap": "AP",
    "ndcg_at_10": "nDCG@10",
    "v_measure": "V-measure",
}
"""How a metric of mteb is written for people."""


def table(before: Sequence[Score], after: Sequence[Score], failed: Sequence[Failure] = ()) -> Table:
    """A table of scores by task with their difference and the mean over tasks.

    Without scores on one side it has one column of values. The mean's row compares the tasks that
    both sides have, so that a missing task can't move it. Tasks that could not be measured stand
    below, with the reason.
    """
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    sides = [side for side in (before, after) if side]
    both = len(sides) == 2
    result = Table(title="Scores", box=box.SIMPLE)
    for heading in ("task", "type", "metric"):
        result.add_column(heading, overflow="fold")
    for heading in ("before", "after", "change") if both else ("score",):
        result.add_column(heading, justify="right")

    by_task = [{score.task: score for score in side} for side in sides]
    for task in dict.fromkeys(score.task for side in sides for score in side):
        found = [scores.get(task) for scores in by_task]
        first = next(score for score in found if score)
        metric = METRICS.get(first.metric, first.metric)
        result.add_row(
            escape(task),
            first.type,
            metric,
            *_values([None if s is None else s.value for s in found]),
        )
    shared = set.intersection(*(set(scores) for scores in by_task)) if by_task else set()
    if len(shared) > 1:
        means = [mean(scores[task] for task in sorted(shared)) for scores in by_task]
        result.add_section()
        result.add_row("mean", f"{len(shared)} tasks", "", *_values(means), style="bold")
    if failed:
        result.add_section()
        values = len(result.columns) - 3
        for failure in failed:
            cells = [*[""] * (values - 1), "failed"]
            result.add_row(escape(failure.task), failure.type, escape(failure.reason), *cells)
    return result


def _values(values: Sequence[float | None]) -> list[str]:
    cells = ["-" if value is None else f"{value:.4f}" for value in values]
    if len(values) == 2:
        first, second = values
        cells.append("-" if first is None or second is None else f"{second - first:+.4f}")
    return cells
