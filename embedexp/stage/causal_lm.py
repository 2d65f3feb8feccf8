"""stage=causal_lm: guess each next token in blocks of plain texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.data.texts import tokenise_texts
from embedexp.loss.causal_lm import build
from embedexp.training.language_batches import Continued

from . import language_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from embedexp.config import Config
    from embedexp.data import Corpus
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Train the composed model on next tokens; `language_model.run` says what it leaves."""
    language_model.run(config, directory, stop, screen, world, prepare)


def prepare(
    config: Config, corpus: Corpus, tokenizer: PreTrainedTokenizerBase
) -> language_model.Task:
    """Blocks of the corpus' texts, each text with an end token."""
    stage, option = config.stage, config.loss
    assert stage.name == "causal_lm"
    assert option.name == "causal_lm"
    texts = tokenise_texts(corpus, tokenizer, config.paths.cache, ended=True)
    return language_model.block_task(config, stage, texts, Continued(build(option)))
