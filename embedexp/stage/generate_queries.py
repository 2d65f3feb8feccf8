"""stage=generate_queries: a query for each document of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.generation import from_data

from . import generating

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Ask for a query of each document; `generating.from_rows` says what it leaves."""
    option = config.stage
    assert option.name == "generate_queries"
    generating.from_rows(
        config,
        directory,
        stop,
        screen,
        questions=lambda corpus: from_data.queries(option, config.seed, corpus),
        distinct=[["query"]],
    )
