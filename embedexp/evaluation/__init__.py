"""Evaluation: what a model is measured on. mteb computes every metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .analysis.task_similarity import task_similarity
from .isolation import random_state_kept
from .ranking import borda
from .scores import Failure, Score, ScoreFile, mean
from .table import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from embedexp.config.schema.evaluation import Evaluation
    from embedexp.data.dataset import Dataset

    from .encoder import Embedder
    from .measurement import Measurement
    from .scores import Phase

__all__ = ["Failure", "Score", "ScoreFile", "borda", "evaluate", "mean", "table", "task_similarity"]


def evaluate(
    embedder: Embedder,
    option: Evaluation,
    *,
    heldout: Sequence[Dataset] = (),
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
    saved_prompts: Mapping[str, str] | None = None,
    on_failure: Callable[[Failure], None] | None = None,
    on_texts: Callable[[str, int], None] | None = None,
) -> list[Score]:
    """Score an embedder on the option's tasks, in their order.

    `heldout` are pairs kept out of training, for retrieval tasks of their own. `on_task` hears of
    each score as it arrives, the reused ones included. `output` is a folder whose scores.json
    keeps the scores under `phase`, written after each task; scores found there or in `done` are
    reused if they belong to the same model (content of weights, prompts and settings) and the
    same task. `saved_prompts` come with a model made elsewhere, by mteb's keys, and stand back
    behind the option's. `on_failure` hears of a task that could not be measured, and the others go
    on; without it the first one ends the evaluation. `on_texts` hears of a task and how many of its
    texts are about to be encoded. Python's, NumPy's and torch's random states are left as they
    were.

    Raises:
        UserError: the option asks for what the model doesn't have, or for no task.
    """
    from embedexp.config.options import implementation

    with random_state_kept():  # importing mteb seeds, too
        scores: list[Score] = implementation("evaluation", option.name).evaluate(
            _measurement(embedder, option, saved_prompts, on_failure, on_texts),
            option,
            heldout=heldout,
            on_task=on_task,
            output=output,
            phase=phase,
            done=done,
        )
    return scores


def _measurement(
    embedder: Embedder,
    option: Evaluation,
    saved: Mapping[str, str] | None,
    on_failure: Callable[[Failure], None] | None,
    on_texts: Callable[[str, int], None] | None,
) -> Embedder | Measurement:
    """The embedder together with everything that a measurement asks of it."""
    if option.name == "none":
        return embedder
    from .measurement import Measurement
    from .prompts import Prompts

    prompts = Prompts(option.prompts, getattr(option, "instructions", None), saved or {})
    return Measurement(embedder, option, prompts, on_failure, on_texts)
