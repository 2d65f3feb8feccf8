"""Evaluation: what a model is measured on. mteb computes every metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .isolation import random_state_kept
from .scores import Score, ScoreFile, mean
from .table import table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from embedexp.config.schema.evaluation import Evaluation
    from embedexp.data.dataset import Dataset

    from .encoder import Embedder
    from .scores import Phase

__all__ = ["Score", "ScoreFile", "evaluate", "mean", "table"]


def evaluate(
    embedder: Embedder,
    option: Evaluation,
    *,
    heldout: Sequence[Dataset] = (),
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
) -> list[Score]:
    """Score an embedder on the option's tasks, in their order.

    `heldout` are pairs kept out of training, for retrieval tasks of their own. `on_task` hears of
    each score as it arrives, the reused ones included. `output` is a folder whose scores.json
    keeps the scores under `phase`, written after each task; scores found there or in `done` are
    reused if they belong to the same model (content of weights, prompts and settings) and the
    same task. Python's, NumPy's and torch's random states are left as they were.
    """
    from embedexp.config.options import implementation

    with random_state_kept():  # importing mteb seeds, too
        scores: list[Score] = implementation("evaluation", option.name).evaluate(
            embedder,
            option,
            heldout=heldout,
            on_task=on_task,
            output=output,
            phase=phase,
            done=done,
        )
    return scores
