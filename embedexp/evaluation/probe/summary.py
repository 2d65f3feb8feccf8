"""What a grid says: the best point of each task by dev, with mean and deviation over seeds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from embedexp.files import write_atomically

from .grid import score_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from embedexp.config.schema.probe import ProbeStage

    from .fit import Cell
    from .grid import Measures, Result


@dataclass(frozen=True)
class Summary:
    """One task: the selected point, and what is reported there.

    `scores` is the task's score of each seed that did not diverge; `measures` has, by part and
    measure, the mean and the sample standard deviation over these seeds (None for one seed).
    """

    task: str
    batch_size: int
    learning_rate: float
    selected_on: float
    reported: str
    scores: list[float]
    diverged: int
    measures: dict[str, dict[str, tuple[float, float | None]]]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return mean(self.scores)

    @property
    def deviation(self) -> float | None:
        """Sample standard deviation over seeds; None for one seed."""
        return stdev(self.scores) if len(self.scores) > 1 else None


def summarise(results: Mapping[Cell, Result]) -> list[Summary]:
    """One per task of which a training came to its end, in their order.

    Selected is the point of batch size and learning rate with the highest mean dev score over
    seeds, the first of equals; points at which fewer seeds diverged come first.
    """
    found = []
    for task in dict.fromkeys(cell.task for cell in results):
        points: dict[tuple[int, float], list[Result]] = {}
        for cell, result in results.items():
            if cell.task == task:
                points.setdefault((cell.batch_size, cell.learning_rate), []).append(result)
        scored = {
            point: (len(whole), mean(v for r in whole if (v := score_of(r.dev)) is not None))
            for point, entries in points.items()
            if (whole := [each for each in entries if each.dev is not None])
        }
        if not scored:
            continue
        best = max(scored, key=lambda point: scored[point])
        found.append(_summary(task, best, scored[best][1], points[best]))
    return found


def _summary(
    task: str, point: tuple[int, float], selected_on: float, entries: Sequence[Result]
) -> Summary:
    whole = [each for each in entries if each.dev is not None]
    reported: list[Measures] = [each.test or each.dev or {} for each in whole]
    measures: dict[str, dict[str, tuple[float, float | None]]] = {}
    for part, metrics in reported[0].items():
        for metric in metrics:
            values = [each[part][metric] for each in reported]
            spread = stdev(values) if len(values) > 1 else None
            measures.setdefault(part, {})[metric] = (mean(values), spread)
    return Summary(
        task,
        *point,
        selected_on,
        "test" if whole[0].test else "dev",
        [value for each in reported if (value := score_of(each)) is not None],
        len(entries) - len(whole),
        measures,
    )


def write(summaries: Sequence[Summary], stage: ProbeStage, folder: Path) -> None:
    """`results.json` and `table.md`."""
    content: dict[str, Any] = {
        "selection": note(stage),
        "average": average(summaries),
        "tasks": [
            {**asdict(each), "mean": each.mean, "deviation": each.deviation} for each in summaries
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "results.json", json.dumps(content, indent=2) + "\n")
    write_atomically(folder / "table.md", markdown(summaries, stage))


def average(summaries: Sequence[Summary]) -> float | None:
    """The mean over tasks of their mean over seeds, each task counting once."""
    return mean(each.mean for each in summaries) if summaries else None


def note(stage: ProbeStage) -> str:
    """What was selected on what, and what the figures are."""
    points = len(stage.batch_sizes) * len(stage.learning_rates)
    tasks = [task for name, task in stage.tasks.items() if stage.only is None or name in stage.only]
    apart = sum(task.test is not None for task in tasks)
    where = "the test splits" if apart == len(tasks) else "dev, the same splits"
    if 0 < apart < len(tasks):
        where = "the test splits where a task has them, else dev, the same splits"
    chosen = (
        f"Selected by the mean dev score over seeds from {points} points of batch size and "
        "learning rate"
        if points > 1
        else "Nothing was selected: there is one point of batch size and learning rate"
    )
    return (
        f"{chosen}; reported on {where}. Mean and sample standard deviation over "
        f"{len(stage.seeds)} seed{'s' if len(stage.seeds) > 1 else ''}, after the last step. "
        "A task's score is the mean over its splits or languages of the mean over its measures."
    )


def markdown(summaries: Sequence[Summary], stage: ProbeStage) -> str:
    """The table as Markdown, in percent."""
    lines = [
        "| task | score | measures | batch | learning rate | reported on |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in summaries:
        cells = (
            each.task, figure(each.mean, each.deviation), details(each), str(each.batch_size),
            f"{each.learning_rate:g}", each.reported,
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    if len(summaries) > 1:
        lines.append(f"| mean | {figure(average(summaries) or 0.0, None)} |  |  |  |  |")
    lines += ["", note(stage)]
    lost = [f"{each.task} {each.diverged}" for each in summaries if each.diverged]
    if lost:
        lines += ["", f"Trainings that diverged at the selected point: {', '.join(lost)}."]
    return "\n".join(lines) + "\n"


def figure(value: float, deviation: float | None) -> str:
    """In percent, two digits: `61.20 ± 0.45`."""
    spread = "" if deviation is None else f" ± {100 * deviation:.2f}"
    return f"{100 * value:.2f}{spread}"


def details(summary: Summary) -> str:
    """Each measure of each part, as far as there are several."""
    several = len(summary.measures) > 1
    return ", ".join(
        f"{f'{part} ' if several else ''}{metric} {figure(*value)}"
        for part, metrics in summary.measures.items()
        for metric, value in metrics.items()
    )
