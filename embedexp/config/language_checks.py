"""Checks of the stages that train language models: mlm, causal_lm and sft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model_checks import positions
from .problems import Problem, Rule, rule, warning

if TYPE_CHECKING:
    from .experiment import Config

LANGUAGE = ("mlm", "causal_lm", "sft")
"""Stages that train language models, each with the loss of its name."""

ON_BLOCKS = ("mlm", "causal_lm")
"""Those that read plain texts in blocks."""


@rule("loss")
def loss_belongs_to_the_stage(config: Config) -> Problem | None:
    """A language model's loss needs its stage, and the stage needs its loss."""
    stage, loss = config.stage.name, config.loss.name
    if stage == loss or not {stage, loss} & set(LANGUAGE):
        return None
    if stage in LANGUAGE:
        return Problem(
            f"stage={stage} learns by loss={stage}, not by loss={loss}", f"take loss={loss} out"
        )
    return Problem(
        f"loss={loss} has nothing to learn from in stage={stage}",
        f"use stage={loss}, which brings the loss along",
    )


@rule("mask_schedule", "routing")
def next_token_is_not_seen(config: Config) -> Problem | None:
    """Guessing a token that is in view teaches nothing; guessing from one side wastes the other."""
    stage, mask, routing = config.stage.name, config.mask_schedule.name, config.routing.name
    if stage in ("causal_lm", "sft") and mask != "causal":
        return Problem(
            f"stage={stage} guesses the next token, and mask_schedule={mask} shows it",
            "take mask_schedule out: the stage brings mask_schedule=causal along",
        )
    if stage in ("causal_lm", "sft") and routing == "expert_choice":
        return Problem(
            f"stage={stage} guesses the next token, and with routing=expert_choice it decides "
            "about the experts of those before it",
            "use routing=moe",
        )
    if stage == "mlm" and mask == "causal":
        return warning(
            "stage=mlm guesses words from both sides, and mask_schedule=causal hides one",
            "use mask_schedule=bidirectional, or stage=causal_lm",
        )
    return None


@rule("backbone", "loss")
def sequences_within_positions(config: Config) -> Problem | None:
    """A table of learned positions ends somewhere."""
    stage = config.stage
    if stage.name not in LANGUAGE:
        return None
    longest = positions(config.backbone)
    if longest is None:
        return None
    if stage.name == "sft":
        if stage.input_tokens + stage.output_tokens > longest:
            return Problem(
                f"stage.input_tokens={stage.input_tokens} and "
                f"stage.output_tokens={stage.output_tokens} make more than the {longest} "
                f"positions of {config.backbone.name}",
                f"set both to {longest // 2} or less",
            )
    elif (stage.name == "mlm" or stage.name == "causal_lm") and stage.block_tokens > longest:
        return Problem(
            f"stage.block_tokens={stage.block_tokens}, but {config.backbone.name} has {longest} "
            "positions",
            f"set stage.block_tokens={longest} or less, or use backbone.positions",
        )
    return None


@rule("batching", "loss")
def blocks_are_batched_as_blocks(config: Config) -> Problem | None:
    """Blocks have no task, are of one length and never repeat."""
    stage, batching = config.stage.name, config.batching
    if stage not in LANGUAGE:
        return None
    if stage in ON_BLOCKS and batching.name not in ("homogeneous", "heterogeneous"):
        return Problem(
            f"stage={stage} reads texts, which have no task, and batching={batching.name} goes by "
            "tasks",
            "use batching=heterogeneous, or batching=homogeneous",
        )
    if stage in ON_BLOCKS and batching.lengths == "bucketed":
        return Problem(
            f"batching.lengths=bucketed has no effect in stage={stage}, whose blocks are of one "
            "length",
            "set batching.lengths=mixed",
        )
    if batching.no_duplicates:
        return Problem(
            f"batching.no_duplicates=true has no effect in stage={stage}, which compares no texts",
            "set batching.no_duplicates=false",
        )
    return None


@rule("loss")
def replacement_shares_fit(config: Config) -> Problem | None:
    """What becomes of hidden words adds up to all of them."""
    if config.loss.name != "mlm":
        return None
    shares = config.loss.replacement
    if shares.mask + shares.random <= 1 + 1e-9:
        return None
    return Problem(
        f"loss.replacement.mask={shares.mask:g} and loss.replacement.random={shares.random:g} "
        "make more than 1",
        f"set loss.replacement.random={max(0.0, 1 - shares.mask):.3g} or less",
    )


RULES: tuple[Rule, ...] = (
    loss_belongs_to_the_stage,
    next_token_is_not_seen,
    sequences_within_positions,
    blocks_are_batched_as_blocks,
    replacement_shares_fit,
)
