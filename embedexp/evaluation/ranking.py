"""Models against each other: Borda votes, and means over tasks and over their types, as in mteb.

Scores are `{model: {task: value}}`; a task that a model lacks, or whose value is None, is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    Values = Mapping[str, float | None]


def borda(scores: Mapping[str, Values]) -> dict[str, float]:
    """Borda votes of each model inside this set of models, in the order of the models.

    On each task the best of n models gets n - 1 votes and the last gets 0; models with equal
    scores share theirs evenly, a missing score gets none. Votes are summed over tasks. So defined
    by mteb (its leaderboard's "Rank (Borda)"; Enevoldsen et al. 2025, arXiv 2502.13595): votes
    depend on which models are compared, and are comparable only inside one set.
    """
    votes = dict.fromkeys(scores, 0.0)
    for task in _tasks(scores):
        known = {m: v for m, own in scores.items() if (v := own.get(task)) is not None}
        for model, value in known.items():
            better = sum(other > value for other in known.values())
            equal = sum(other == value for other in known.values())
            votes[model] += len(scores) - (better + (equal + 1) / 2)
    return votes


def ranks(votes: Mapping[str, float]) -> dict[str, int]:
    """Places from 1 (most votes); models with equal votes share the better place."""
    return {model: 1 + sum(other > own for other in votes.values()) for model, own in votes.items()}


def mean_over_tasks(values: Values, tasks: Mapping[str, str]) -> float | None:
    """The plain mean over `tasks` (mteb's "Mean (Task)"); None if one is missing or none asked."""
    found = [values.get(task) for task in tasks]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


def means_by_type(values: Values, tasks: Mapping[str, str]) -> dict[str, float | None]:
    """The mean over the tasks of each type, from `tasks` (task -> type); None where one misses."""
    return {
        kind: mean_over_tasks(values, {t: k for t, k in tasks.items() if k == kind})
        for kind in dict.fromkeys(tasks.values())
    }


def mean_over_types(values: Values, tasks: Mapping[str, str]) -> float | None:
    """The mean of the types' means (mteb's "Mean (TaskType)"); None if a task is missing."""
    found = means_by_type(values, tasks)
    return mean_over_tasks(found, dict.fromkeys(found, ""))


def _tasks(scores: Mapping[str, Values]) -> list[str]:
    return list(dict.fromkeys(task for values in scores.values() for task in values))
