"""stage=translate: queries of the data in other languages, for cross-lingual pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp import data
from embedexp.generation import from_data

from .generating import finish, work

if TYPE_CHECKING:
    from embedexp.config import Config
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Leave `generated/examples.jsonl` and a report in `directory`.

    Raises:
        UserError: the budget is used up, an endpoint does not answer, or nothing valid came.
    """
    option = config.stage
    assert option.name == "translate"
    asked = work(option, config, directory, stop)
    corpus = data.load(config.data, config.paths.cache)
    finish(
        asked,
        lambda: from_data.translations(option, config.seed, corpus),
        directory,
        screen,
        distinct=[["query", "positive"]],
        shares=option.languages,
        task="retrieval",
        columns=["data.columns.language=language"],
        as_they_are=from_data.untranslated(option, config.seed, corpus),
    )
