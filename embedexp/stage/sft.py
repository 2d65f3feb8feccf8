"""stage=sft: guess the second text of a pair after the first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from embedexp import batching
from embedexp.batching.plan import Source
from embedexp.data.texts import tokenise_pairs
from embedexp.loss.sft import build
from embedexp.training.language_batches import PairSteps, pair_batch

from . import language_model
from .contrastive import require_filled

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
    """Train the composed model on answers; `language_model.run` says what it leaves."""
    language_model.run(config, directory, stop, screen, world, prepare)


def prepare(
    config: Config, corpus: Corpus, tokenizer: PreTrainedTokenizerBase
) -> language_model.Task:
    """The pairs of the corpus, each as a prompt and an answer.

    Raises:
        UserError: there are fewer pairs than a batch holds, or no end token.
    """
    stage, option = config.stage, config.loss
    assert stage.name == "sft"
    assert option.name == "sft"
    require_filled(config, corpus)
    answers = build(option)
    pairs = tokenise_pairs(
        corpus,
        tokenizer,
        config.paths.cache,
        prompts=option.prompts.model_dump(),
        input_tokens=stage.input_tokens,
        output_tokens=stage.output_tokens,
    )
    sources = []
    for each in pairs:
        count = len(each) - language_model.kept_out(len(each), stage.holdout)
        lengths = each.lengths(np.arange(count))[1]
        sources.append(
            Source(each.name, each.task, count, each.weight, each.language, lengths=lengths)
        )
    steps = PairSteps(batching.build(config.batching, sources, config.seed), pairs, answers)
    heldout = [
        partial(pair_batch, pairs, [rows], answers)
        for rows in language_model.last_rows([len(each) for each in pairs], stage.holdout)
    ]
    return language_model.Task(lambda rank, world: partial(steps, rank=rank, world=world), heldout)
