"""Losses of language models: what is guessed in a text."""

from __future__ import annotations

from typing import Literal

from .base import Option, field
from .data import TrainingTask


class Replacement(Option):
    """What stands in the place of a hidden word; it stays as it is in the rest."""

    mask: float = field("share that becomes the mask token", ge=0, le=1)
    random: float = field("share that becomes a random word", ge=0, le=1)


class MLM(Option):
    """Masked language modelling: hidden words are guessed from both sides."""

    name: Literal["mlm"] = field("option")
    tasks: list[TrainingTask] = field("kinds of pairs whose texts are read, if any", min_length=1)
    probability: float = field("share of words that are hidden", gt=0, lt=1)
    replacement: Replacement = field("what stands in the place of a hidden word")


class CausalLM(Option):
    """Causal language modelling: each token is guessed from those before it."""

    name: Literal["causal_lm"] = field("option")
    tasks: list[TrainingTask] = field("kinds of pairs whose texts are read, if any", min_length=1)


class Prompts(Option):
    """What is read before the second text, by task; `{text}` is the first text."""

    retrieval: str = field("prompt of retrieval pairs", pattern=r"\{text\}")
    classification: str = field("prompt of classification pairs", pattern=r"\{text\}")
    clustering: str = field("prompt of clustering pairs", pattern=r"\{text\}")


class SFT(Option):
    """Supervised fine-tuning: the second text of a pair is guessed after the first."""

    name: Literal["sft"] = field("option")
    tasks: list[TrainingTask] = field("kinds of example it can learn from", min_length=1)
    prompts: Prompts = field("what is read before the second text, by task")
