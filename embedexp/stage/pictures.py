"""The pictures that a trained run leaves, from its metrics and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from embedexp.evaluation import ScoreFile
from embedexp.evaluation.negatives_plot import plot_negatives
from embedexp.evaluation.plots import plot_run
from embedexp.evaluation.router_plot import plot_routing
from embedexp.training import checkpoint

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.evaluation.scores import Score
    from embedexp.runs import RunDirectory

PHASES: tuple[Literal["before", "after"], ...] = ("before", "after")


def draw(directory: RunDirectory) -> None:
    """Draw the losses and scores, and the routers and dynamic negatives where there are some."""
    lines, title = directory.metrics.read(), directory.name
    scores: dict[str, list[Score]] = {
        phase: ScoreFile(directory.evaluation).read(phase) for phase in PHASES
    }
    plot_run(lines, scores, directory.path / "plot.png", title=title)
    plot_routing(lines, directory.path / "routing.png", title=title)
    plot_negatives(lines, directory.path / "negatives.png", title=title)


def forget(config: Config, directory: RunDirectory) -> None:
    """Checkpoints serve to resume; a finished run is its model, a sixth of their size.

    The best ones, if the run was to keep some, stay.
    """
    checkpoint.forget(directory.checkpoints, config.training.keep_best)
