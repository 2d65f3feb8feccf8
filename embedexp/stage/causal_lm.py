"""stage=causal_lm: guess each next token in blocks of plain texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from embedexp import batching
from embedexp.data.texts import tokenise_texts
from embedexp.loss.causal_lm import build
from embedexp.training.language_batches import Continued, Steps

from . import language_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from embedexp.config import Config
    from embedexp.data import Corpus
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest

    from .screen import Screen


def run(config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen) -> None:
    """Train the composed model on next tokens; `language_model.run` says what it leaves."""
    language_model.run(config, directory, stop, screen, prepare)


def prepare(
    config: Config, corpus: Corpus, tokenizer: PreTrainedTokenizerBase
) -> language_model.Task:
    """Blocks of the corpus' texts, each text with an end token."""
    stage, option = config.stage, config.loss
    assert stage.name == "causal_lm"
    assert option.name == "causal_lm"
    corruption = Continued(build(option))
    texts = tokenise_texts(corpus, tokenizer, config.paths.cache, ended=True)
    blocks = language_model.blocks_of(texts, stage)
    sources = language_model.block_sources(texts, blocks, stage.holdout)
    plan = batching.build(config.batching, sources, config.seed)
    steps = Steps(plan, blocks, corruption, config.seed)
    return language_model.Task(
        lambda rank, world: partial(steps, rank=rank, world=world),
        language_model.heldout_blocks(blocks, corruption, stage.holdout),
    )
