"""stage=merge: average trained models into one, then score it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp import merge

from .evaluate import measure

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Merge `merge.inputs` by `merge` and leave the model and its scores in `directory`."""
    embedder = merge.merge(config.merge)
    embedder.save(directory.model)
    measure(config, embedder, directory, (), "after", stop, screen)
