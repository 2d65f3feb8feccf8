"""stage=analyse: ask more of a trained model than its scores."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from embedexp.embedding import load
from embedexp.embedding.foreign import locate
from embedexp.evaluation.analysis.context import Context
from embedexp.evaluation.isolation import random_state_kept

from .contrastive import device
from .evaluate import saved_prompts

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.evaluation.analysis import Report
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Leave `analysis/NAME.json` and `analysis/NAME.png`; the first rank works alone."""
    assert config.stage.name == "analyse"
    if not world.first:
        return
    place = device(config, world)
    folder = locate(config.stage.model)

    def told(message: str) -> None:
        directory.update(message=message)
        stop.check()

    name = config.analysis.name
    context = Context(
        embedder=load(folder, place),
        model=config.stage.model,
        option=config.analysis,
        evaluation=config.evaluation,
        seed=config.seed,
        folder=directory.analysis,
        load=lambda path: load(path, place),
        say=screen.say,
        told=told,
        saved_prompts=saved_prompts(folder),
    )
    with random_state_kept():
        report: Report = import_module(f"embedexp.evaluation.analysis.{name}").analyse(context)
    report.write(directory.analysis)
