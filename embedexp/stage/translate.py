"""stage=translate: queries of the data in other languages, for cross-lingual pairs."""

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
    """Ask for translations of queries; `generating.from_rows` says what it leaves."""
    option = config.stage
    assert option.name == "translate"
    generating.from_rows(
        config,
        directory,
        stop,
        screen,
        questions=lambda corpus: from_data.translations(option, config.seed, corpus),
        distinct=[["query", "positive"]],
        as_they_are=lambda corpus: from_data.untranslated(option, config.seed, corpus),
    )
