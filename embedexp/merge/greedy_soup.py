"""merge=greedy_soup: models join an average one by one, unless it gets worse."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import combining
from .record import Input, Record
from .together import opened, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embedexp.config.schema.merge import GreedySoup

    from . import Score
    from .models import Model


def merge(option: GreedySoup, output: Path, score: Score | None = None) -> Record:
    """Write the equal average of the models that help (model soups, arXiv 2203.05482, recipe 1).

    Models come in the order of their own scores, the best first; each is kept if the average with
    it scores at least `min_gain` more than the one without. `score` may remember what it has
    measured: the same models are scored in the same order again when a merge is repeated.

    Raises:
        UserError: the models differ in more than their weights, or there is no way to score.
    """
    if score is None:
        raise UserError(
            "merge=greedy_soup needs scores",
            hint="use it with stage=merge, or give merge() a score",
        )
    with opened(option.inputs) as models:
        alone = [_scored([model], output, score) for model in models]
        order = sorted(range(len(models)), key=lambda i: -alone[i])
        kept, best = [order[0]], alone[order[0]]
        decisions: list[dict[str, Any]] = [
            {"model": models[order[0]].path, "alone": best, "score": best, "kept": True}
        ]
        for i in order[1:]:
            found = _scored([models[j] for j in (*kept, i)], output, score)
            joins = found >= best + option.min_gain
            decisions.append(
                {"model": models[i].path, "alone": alone[i], "score": found, "kept": joins}
            )
            if joins:
                kept, best = [*kept, i], found
        notes = write([models[i] for i in kept], combining.uniform, output, models[kept[0]])
        inputs = [
            Input.of(model, weight=1 / len(kept) if i in kept else 0.0)
            for i, model in enumerate(models)
        ]
    return Record(option.model_dump(mode="json"), inputs, decisions, notes)


def _scored(models: Sequence[Model], output: Path, score: Score) -> float:
    """The score of an average, which is written for that purpose beside the output."""
    candidate = output.with_name(f".{output.name}.candidate")
    write(models, combining.uniform, candidate, models[0])
    try:
        return score(candidate)
    finally:
        shutil.rmtree(candidate)
