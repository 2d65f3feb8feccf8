"""stage=mlm: guess hidden words in blocks of plain texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.data.texts import tokenise_texts
from embedexp.loss.mlm import Words, build
from embedexp.training.language_batches import Masked

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
    """Train the composed model on masked words; `language_model.run` says what it leaves."""
    language_model.run(config, directory, stop, screen, world, prepare)


def prepare(
    config: Config, corpus: Corpus, tokenizer: PreTrainedTokenizerBase
) -> language_model.Task:
    """Blocks of the corpus' texts, and how words in them are hidden.

    Raises:
        UserError: the tokenizer has no mask token.
    """
    stage, option = config.stage, config.loss
    assert stage.name == "mlm"
    assert option.name == "mlm"
    corruption = Masked(build(option), words_of(tokenizer))
    texts = tokenise_texts(corpus, tokenizer, config.paths.cache, ended=False)
    return language_model.block_task(config, stage, texts, corruption)


def words_of(tokenizer: PreTrainedTokenizerBase) -> Words:
    """The words of a tokenizer's vocabulary, without special tokens.

    Raises:
        UserError: it has no mask token.
    """
    if tokenizer.mask_token_id is None:
        raise UserError(
            "the tokenizer has no mask token",
            where="backbone.tokenizer",
            hint="use stage=causal_lm, or a tokenizer with a mask_token",
        )
    special = set(tokenizer.all_special_ids)
    return Words(tokenizer.mask_token_id, [i for i in range(len(tokenizer)) if i not in special])
