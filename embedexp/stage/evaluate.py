"""stage=evaluate: score a trained model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp import evaluation
from embedexp.embedding import load

from . import pictures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config import Config
    from embedexp.data.dataset import Dataset
    from embedexp.embedding import Embedder
    from embedexp.evaluation import Score
    from embedexp.evaluation.scores import Phase
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.tracking import Tracker
    from embedexp.training.world import World

    from .screen import Screen


def measure(
    config: Config,
    embedder: Embedder,
    directory: RunDirectory,
    heldout: Sequence[Dataset],
    phase: Phase,
    stop: StopRequest,
    screen: Screen,
) -> list[Score]:
    """Scores of `embedder` on the tasks of `config.evaluation`, kept as they come.

    Raises:
        InterruptedRunError: when a stop was asked for; finished tasks are kept.
    """

    def on_task(score: Score) -> None:
        screen.say(f"  {score.task:<20} {score.metric} {score.value:.4f}  ({score.seconds:.1f} s)")
        directory.update(message=f"scoring {phase} training: {score.task}")
        stop.check()

    return evaluation.evaluate(
        embedder,
        config.evaluation,
        heldout=heldout,
        on_task=on_task,
        output=directory.evaluation,
        phase=phase,
    )


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
    """Score the trained model, tell the tracker, and draw the run."""
    if config.evaluation.name != "none":
        screen.say("scoring the trained model")
    scores = measure(config, embedder, directory, heldout, "after", stop, screen)
    tracker.summary({f"scores/{score.task}": score.value for score in scores})
    pictures.draw(directory)


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Score the model that `stage.model` names."""
    assert config.stage.name == "evaluate"
    measure(config, load(config.stage.model), directory, (), "after", stop, screen)
