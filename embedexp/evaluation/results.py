"""From mteb's result of a task to a score, or from what went wrong to a failure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from embedexp.files import replacing

from .scores import Failure, Phase, Score

if TYPE_CHECKING:
    from pathlib import Path

    import mteb
    from mteb.results import TaskResult

DETAILS = "mteb"
"""Folder of mteb's own results beside scores.json: every metric, split and subset of each task."""

MOST_LETTERS = 300
"""Of a failure's reason."""


def score(task: mteb.AbsTask, result: TaskResult, seconds: float, fingerprint: str) -> Score:
    """The score of a task: mteb's own mean of its main metric over splits and subsets.

    Raises:
        ValueError: the metric is not a number.
    """
    several = len(result.scores) > 1
    subsets: dict[str, float] = {}
    languages: dict[str, list[str]] = {}
    for split, entries in result.scores.items():
        for entry in entries:
            name = f"{split}/{entry['hf_subset']}" if several else entry["hf_subset"]
            value = entry["main_score"]
            if value is None or not math.isfinite(value):
                raise ValueError(f"its {task.metadata.main_score} is no number ({name}: {value})")
            subsets[name], languages[name] = float(value), list(entry["languages"])
    return Score(
        task=task.metadata.name,
        type=task.metadata.type,
        metric=task.metadata.main_score,
        value=float(result.get_score()),
        seconds=seconds,
        fingerprint=fingerprint,
        subsets=subsets if set(subsets) != {"default"} else {},
        languages=languages,
        domains=tuple(task.metadata.domains or ()),
    )


def failure(task: mteb.AbsTask, error: Exception) -> Failure:
    """A task that could not be measured, with the first line of the reason."""
    words = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    reason = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if len(reason) > MOST_LETTERS:
        reason = reason[: MOST_LETTERS - 3] + "..."
    return Failure(task.metadata.name, task.metadata.type, reason)


def details(folder: Path, phase: Phase, task: str) -> Path:
    """The file with mteb's own result of a task, below a folder of scores."""
    return folder / DETAILS / phase / f"{task.replace('/', '_')}.json"


def write_details(result: TaskResult, folder: Path, phase: Phase) -> None:
    """Write mteb's own result, whole or not at all; `mteb.TaskResult.from_disk` reads it."""
    path = details(folder, phase, result.task_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        result.to_disk(temporary)
