"""Checks of stage=tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .problems import Problem, Rule, rule

if TYPE_CHECKING:
    from .experiment import Config

AROUND = {"eos": ("eos",), "bos_eos": ("bos", "eos"), "cls_sep": ("cls", "sep"), "none": ()}
BYTES = 256


@rule("stage")
def special_tokens_are_there(config: Config) -> Problem | None:
    """What stands around texts exists, and so does what stands for the unknown."""
    stage = config.stage
    if stage.name != "tokenizer":
        return None
    for role in AROUND[stage.around]:
        if getattr(stage.special, role) is None:
            return Problem(
                f"stage.around={stage.around} needs stage.special.{role}, which is null",
                f"set stage.special.{role}, or another stage.around",
            )
    if stage.model != "byte_bpe" and stage.special.unk is None:
        return Problem(
            f"stage.model={stage.model} meets what is not in its vocabulary, and "
            "stage.special.unk is null",
            "set stage.special.unk='[UNK]', or stage.model=byte_bpe, which knows every byte",
        )
    return None


@rule("stage")
def vocabulary_is_large_enough(config: Config) -> Problem | None:
    """Bytes and special tokens alone take their places."""
    stage = config.stage
    if stage.name != "tokenizer":
        return None
    least = BYTES + 8 + len(stage.special.more)
    if stage.model == "byte_bpe" and stage.vocabulary < least:
        return Problem(
            f"stage.vocabulary={stage.vocabulary} has no room beside 256 bytes and the special "
            "tokens",
            f"set stage.vocabulary={least} or more",
        )
    if stage.model == "unigram" and stage.min_frequency != 2:
        return Problem(
            f"stage.min_frequency={stage.min_frequency} has no effect with stage.model=unigram",
            "take it out",
        )
    return None


RULES: tuple[Rule, ...] = (special_tokens_are_there, vocabulary_is_large_enough)
