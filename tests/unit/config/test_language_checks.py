"""Stages that train language models: what goes with them comes along, the rest is refused."""

from __future__ import annotations

import pytest

from embedexp.config import UserError, compose
from embedexp.config.show import show

TINY = ["backbone=tiny", "data.max_examples=400"]

# overrides, what the message says, overrides that the fix leads to
CONTRADICTIONS: list[tuple[list[str], str, list[str]]] = [
    (["loss=mlm"], "nothing to learn from in stage=contrastive", ["stage=mlm"]),
    (["stage=mlm", "loss=infonce"], "not by loss=infonce", ["stage=mlm"]),
    (["stage=sft", "loss=causal_lm"], "not by loss=causal_lm", ["stage=sft"]),
    (["stage=causal_lm", "mask_schedule=linear"], "shows it", ["stage=causal_lm"]),
    (["stage=sft", "mask_schedule=bidirectional"], "shows it", ["stage=sft"]),
    (
        ["stage=causal_lm", "routing=expert_choice"],
        "those before it",
        ["stage=causal_lm", "routing=moe"],
    ),
    (
        ["stage=mlm", "stage.block_tokens=1024"],
        "512 positions",
        ["stage=mlm", "stage.block_tokens=512"],
    ),
    (
        ["stage=sft", "stage.input_tokens=500"],
        "512 positions",
        ["stage=sft", "stage.input_tokens=256", "stage.output_tokens=256"],
    ),
    (
        ["stage=mlm", "batching=task_aware"],
        "which have no task",
        ["stage=mlm", "batching=heterogeneous"],
    ),
    (["stage=mlm", "batching.lengths=bucketed"], "of one length", ["stage=mlm"]),
    (["stage=sft", "batching.no_duplicates=true"], "compares no texts", ["stage=sft"]),
    (
        ["stage=mlm", "loss.replacement.mask=0.95"],
        "more than 1",
        ["stage=mlm", "loss.replacement.mask=0.95", "loss.replacement.random=0.05"],
    ),
    (["stage=mlm", "negatives=none"], "no effect in stage=mlm", ["stage=mlm"]),
]


@pytest.mark.parametrize(("wrong", "message", "mended"), CONTRADICTIONS)
def test_contradictions_are_refused_and_the_fix_composes(wrong, message, mended):
    with pytest.raises(UserError) as caught:
        compose([*TINY, *wrong])
    assert message in str(caught.value)
    compose([*TINY, *mended])


@pytest.mark.parametrize(
    ("stage", "mask"), [("mlm", "bidirectional"), ("causal_lm", "causal"), ("sft", "causal")]
)
def test_a_stage_brings_its_loss_mask_and_batching_along(stage, mask):
    config = compose([*TINY, f"stage={stage}"])
    assert (config.loss.name, config.mask_schedule.name) == (stage, mask)
    assert (config.batching.name, config.evaluation.name) == ("heterogeneous", "none")
    chosen = compose([*TINY, f"stage={stage}", "batching=homogeneous", "evaluation=builtin"])
    assert (chosen.batching.name, chosen.evaluation.name) == ("homogeneous", "builtin")


def test_negatives_are_no_part_of_a_language_models_identity():
    config = compose([*TINY, "stage=mlm"])
    other = config.model_copy(update={"negatives": None})
    assert config.signature == other.signature
    fewer = compose([*TINY, "stage=mlm", "loss.probability=0.15"])
    assert fewer.signature != config.signature


def test_a_causal_mask_in_mlm_is_allowed_with_a_warning():
    warnings = compose([*TINY, "stage=mlm", "mask_schedule=causal"]).warnings
    assert any("from both sides" in text for text in warnings)


def test_the_demo_scale_shrinks_blocks_and_pairs():
    mlm = compose([*TINY, "stage=mlm", "stage.block_tokens=512", "scale=demo"])
    sft = compose([*TINY, "stage=sft", "stage.input_tokens=200", "scale=demo"])
    assert mlm.stage.block_tokens == mlm.scale.tokens
    assert sft.stage.input_tokens == sft.scale.tokens


def test_the_experiment_in_words_says_what_is_read_and_guessed():
    text = " ".join(show(compose([*TINY, "stage=mlm", "stage.block_tokens=100"])).split())
    assert "64 blocks of 100 tokens, heterogeneous; documents apart" in text
    assert "0.3 of the words are hidden (0.8 masked, 0.1 random, 0.1 as they are)" in text
    assert "at most 256k tokens" in text  # 40 steps of 64 blocks
    assert "negatives" not in text
    text = " ".join(show(compose([*TINY, "stage=sft"])).split())
    assert "prompts to 64 tokens, second texts to 64" in text
    assert "retrieval='Instruction: Answer the query." in text
