"""stage=zero_shot: score the composed model as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.embedding import build_embedder

from .contrastive import device
from .evaluate import gathered, measure

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Build the model that `backbone`, `routing` and `embedding` describe, and score it.

    What is random in it, such as new routers, is a function of the seed. The first rank works
    alone.
    """
    assert config.stage.name == "zero_shot"
    if not world.first:
        return
    embedder = build_embedder(config).to(device(config, world)).eval()
    stop.check()
    measure(
        config,
        embedder,
        directory,
        (),
        "after",
        stop,
        screen,
        done=gathered(config, directory),
        saved_prompts={},
    )
