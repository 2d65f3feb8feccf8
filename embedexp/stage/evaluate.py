"""stage=evaluate: score a trained model."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

from embedexp import evaluation
from embedexp.config.errors import UserError
from embedexp.embedding import files, load
from embedexp.embedding.foreign import locate
from embedexp.evaluation import ScoreFile
from embedexp.runs import RunDirectory

from . import pictures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.data.dataset import Dataset
    from embedexp.embedding import Embedder
    from embedexp.evaluation import Failure, Score
    from embedexp.evaluation.scores import Phase
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.tracking import Tracker
    from embedexp.training.world import World

    from .screen import Screen

SAID_TEXTS = 2000
"""Texts of one piece of work from which on the screen is told of it."""

log = logging.getLogger(__name__)


class UnmeasuredTasksError(UserError):
    """Tasks could not be measured; the scores of the others are kept."""

    def __init__(self, failures: Sequence[Failure], asked: int) -> None:
        self.failures = list(failures)
        first = failures[0]
        super().__init__(
            f"{len(failures)} of {asked} tasks could not be measured: "
            f"{', '.join(failure.task for failure in failures[:3])}"
            f"{', ...' if len(failures) > 3 else ''}",
            where=f"{first.task}: {first.reason}",
            hint="the same command measures these alone; evaluation.exclude leaves tasks out",
        )


def measure(
    config: Config,
    embedder: Embedder,
    directory: RunDirectory,
    heldout: Sequence[Dataset],
    phase: Phase,
    stop: StopRequest,
    screen: Screen,
    *,
    done: Sequence[Score] = (),
    saved_prompts: Mapping[str, str] | None = None,
) -> list[Score]:
    """Scores of `embedder` on the tasks of `config.evaluation`, kept as they come.

    `done` are scores that other runs have measured; they are taken over where they fit.

    Raises:
        InterruptedRunError: when a stop was asked for; finished tasks are kept.
        UnmeasuredTasksError: tasks failed after training; before it they are only told.
    """
    failures: list[Failure] = []

    def on_task(score: Score) -> None:
        screen.say(f"  {score.task:<20} {score.metric} {score.value:.4f}  ({score.seconds:.1f} s)")
        directory.update(message=f"scoring {phase} training: {score.task}")
        stop.check()

    def on_failure(failure: Failure) -> None:
        failures.append(failure)
        screen.say(f"  {failure.task:<20} failed: {failure.reason}")
        stop.check()

    def on_texts(task: str, count: int) -> None:
        if count >= SAID_TEXTS:
            screen.say(f"  {task}: {count:,} texts to encode")
            directory.update(message=f"scoring {phase} training: {task}, {count:,} texts")
        stop.check()

    scores = evaluation.evaluate(
        embedder,
        config.evaluation,
        heldout=heldout,
        on_task=on_task,
        output=directory.evaluation,
        phase=phase,
        done=done,
        saved_prompts=saved_prompts,
        on_failure=on_failure,
        on_texts=on_texts,
    )
    if failures and phase == "after":
        raise UnmeasuredTasksError(failures, len(scores) + len(failures))
    return scores


def before(
    config: Config,
    embedder: Embedder,
    directory: RunDirectory,
    heldout: Sequence[Dataset],
    stop: StopRequest,
    screen: Screen,
) -> None:
    """Score the model before training, if that is wanted."""
    if config.evaluation.name != "none" and config.evaluation.before:
        screen.say("scoring the model before training")
        measure(config, embedder, directory, heldout, "before", stop, screen)


def after(
    config: Config,
    embedder: Embedder,
    directory: RunDirectory,
    heldout: Sequence[Dataset],
    stop: StopRequest,
    screen: Screen,
    tracker: Tracker,
) -> None:
    """Score the trained model, tell the tracker, and draw the run.

    Raises:
        UnmeasuredTasksError: tasks failed; the others are told and drawn.
    """
    if config.evaluation.name != "none":
        screen.say("scoring the trained model")
    failed: UnmeasuredTasksError | None = None
    try:
        measure(config, embedder, directory, heldout, "after", stop, screen)
    except UnmeasuredTasksError as error:
        failed = error
    scores = ScoreFile(directory.evaluation).read("after")
    tracker.summary(summary(scores))
    pictures.draw(directory)
    if failed is not None:
        raise failed


def summary(scores: Sequence[Score]) -> dict[str, float]:
    """What a tracker shows of scores: each task's, and their mean."""
    found = {f"scores/{score.task}": score.value for score in scores}
    mean = evaluation.mean(scores)
    return found if mean is None else {**found, "scores/mean": mean}


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Score the model that `stage.model` names, or a shard's part of the tasks.

    Without a shard, the scores of the runs with one are taken over, and what is missing is
    measured. The first rank works alone.
    """
    from .contrastive import device

    assert config.stage.name == "evaluate"
    if not world.first:
        return
    folder = locate(config.stage.model)
    measure(
        config,
        load(folder, device(config, world)),
        directory,
        (),
        "after",
        stop,
        screen,
        done=gathered(config, directory),
        saved_prompts=saved_prompts(folder),
    )


def saved_prompts(folder: Path) -> Mapping[str, str] | None:
    """The prompts that sentence-transformers has kept with a model, by name.

    Models of ours have none there: they hold theirs in the embedding.
    """
    if (folder / files.OURS).is_file():
        return {}
    found: Mapping[str, str] | None = files.read_json(folder / files.SETTINGS).get("prompts")
    return found


def gathered(config: Config, directory: RunDirectory) -> list[Score]:
    """The scores of the runs that measured one shard each, mteb's own results copied beside."""
    option = config.evaluation
    if option.name != "mteb" or option.shard is not None or option.shards == 1:
        return []
    found: list[Score] = []
    for shard in range(option.shards):
        asked = option.model_copy(update={"shard": shard})
        other = RunDirectory.of(config.model_copy(update={"evaluation": asked}))
        scores = ScoreFile(other.evaluation).read("after")
        found += scores
        if scores:
            log.info("%d scores are found in %s", len(scores), other.path)
        if (results := other.evaluation / "mteb").is_dir():
            shutil.copytree(results, directory.evaluation / "mteb", dirs_exist_ok=True)
    return found
