"""Stages that train language models, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .experiment import Config


def longest_example(config: Config) -> int | None:
    """Most tokens of a block or of a pair; None in other stages."""
    stage = config.stage
    if stage.name == "mlm" or stage.name == "causal_lm":
        return stage.block_tokens
    return stage.input_tokens + stage.output_tokens if stage.name == "sft" else None


def batch_words(config: Config) -> str | None:
    """What a step reads; None in other stages."""
    stage, batching = config.stage, config.batching
    size = getattr(batching, "size", 0)
    if stage.name == "mlm" or stage.name == "causal_lm":
        return (
            f"{size} blocks of {stage.block_tokens:,} tokens, {batching.name}; "
            f"documents {stage.documents}"
        )
    if stage.name != "sft":
        return None
    return (
        f"{size or batching.name} pairs, {batching.name}; prompts to {stage.input_tokens} tokens, "
        f"second texts to {stage.output_tokens}"
    )


def loss_words(config: Config) -> str | None:
    """What is guessed; None for other losses."""
    loss = config.loss
    if loss.name == "mlm":
        shares = loss.replacement
        stays = max(0.0, 1 - shares.mask - shares.random)
        return (
            f"mlm: {loss.probability:.3g} of the words are hidden ({shares.mask:.3g} masked, "
            f"{shares.random:.3g} random, {stays:.3g} as they are)"
        )
    if loss.name == "causal_lm":
        return "causal_lm: each token from those before it"
    if loss.name != "sft":
        return None
    prompts = loss.prompts.model_dump()
    used = ", ".join(f"{task}={prompts[task]!r}" for task in loss.tasks if task in prompts)
    return f"sft: the second text after the first; prompts: {used}"
