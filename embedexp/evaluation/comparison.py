"""Finished models side by side: ranks, means, paired differences, breakdowns by language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, shorten
from embedexp.config.flat import flatten

from .languages import breakdown
from .paired import Paired, paired
from .ranking import borda, mean_over_tasks, mean_over_types, means_by_type, ranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .scores import Score

MODEL = ("embedding", "routing", "mask_schedule", "architecture", "tokenizer", "saved_prompts")
"""Settings that belong to the model which is compared; all others say how it was measured."""

LENGTHS = ("embedding.query_tokens", "embedding.document_tokens")
"""Of the model's settings, those that are part of the measurement all the same."""

FAMILY, RESOURCES = "family", "resource class"


@dataclass(frozen=True)
class Measured:
    """A model's scores after training, and how they were measured."""

    name: str
    scores: Sequence[Score]
    settings: Mapping[str, Any]

    @property
    def values(self) -> dict[str, float]:
        """Values by task."""
        return {score.task: score.value for score in self.scores}

    @property
    def subsets(self) -> dict[str, float]:
        """Values by task and subset, of the tasks that have subsets."""
        return {f"{s.task}/{name}": value for s in self.scores for name, value in s.subsets.items()}


@dataclass(frozen=True)
class Standing:
    """A model among others: its place, its votes, and its means (None where a task is missing)."""

    model: str
    rank: int
    votes: float
    mean_task: float | None
    mean_type: float | None
    types: Mapping[str, float | None]


def standings(models: Sequence[Measured]) -> list[Standing]:
    """Each model's place inside this set, best first; see `ranking.borda`."""
    tasks = {score.task: score.type for model in models for score in model.scores}
    votes = borda({model.name: model.values for model in models})
    places = ranks(votes)
    found = [
        Standing(
            model.name,
            places[model.name],
            votes[model.name],
            mean_over_tasks(model.values, tasks),
            mean_over_types(model.values, tasks),
            means_by_type(model.values, tasks),
        )
        for model in models
    ]
    return sorted(found, key=lambda standing: standing.rank)


def against(reference: Measured, other: Measured) -> list[Paired]:
    """`other` minus `reference`, over the tasks that both have, and over the subsets of tasks."""
    found = []
    for unit, first, second in (
        ("task", reference.values, other.values),
        ("subset (language or language pair) of a task", reference.subsets, other.subsets),
    ):
        shared = [name for name in first if name in second]
        if shared:
            found.append(paired([first[n] for n in shared], [second[n] for n in shared], unit=unit))
    return found


def breakdowns(
    models: Sequence[Measured], by: str
) -> dict[str, tuple[int, dict[str, float | None]]]:
    """By `family` or `resource class`: languages in each group, and each model's mean there.

    Only subsets that all models have count, so that groups are of the same languages.
    """
    shared = set.intersection(*({_task(s) for s in model.scores} for model in models))
    each = {
        model.name: breakdown([s for s in model.scores if _task(s) in shared])[by]
        for model in models
    }
    groups = dict.fromkeys(name for found in each.values() for name in found)
    return {
        group: (
            max(found[group][1] for found in each.values() if group in found),
            {name: found[group][0] if group in found else None for name, found in each.items()},
        )
        for group in groups
    }


def _task(score: Score) -> tuple[str, tuple[str, ...]]:
    return score.task, tuple(sorted(score.subsets))


def measurement(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model's recorded settings, those that say how it was measured, by dotted key."""
    flat = flatten(dict(settings))
    return {
        key: value
        for key, value in flat.items()
        if key.split(".")[0] not in MODEL or key in LENGTHS
    }


def differences(models: Sequence[Measured]) -> list[tuple[str, str, str]]:
    """Settings in which one was measured otherwise: key, the first model's value, the other's."""
    first, *others = ({**measurement(model.settings)} for model in models)
    found: dict[str, tuple[str, str, str]] = {}
    for other in others:
        for key in (*first, *other):
            mine, theirs = first.get(key, "-"), other.get(key, "-")
            if mine != theirs:
                found.setdefault(key, (key, shorten(mine, 40), shorten(theirs, 40)))
    return list(found.values())


def require_same(models: Sequence[Measured]) -> None:
    """Refuse models that were not measured in the same way.

    Raises:
        UserError: the first setting in which they differ.
    """
    found = differences(models)
    if found:
        key, mine, theirs = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise UserError(
            f"the models were not measured in the same way: {key} is {mine} and {theirs}{more}",
            hint="measure them with the same evaluation, or add --different to compare anyway",
        )
