"""The estimate of memory agrees with what steps allocate, and moves the right way."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from embedexp import build_embedder, loss
from embedexp.backbone import heads
from embedexp.batching.collate import collate
from embedexp.batching.layout import Layout
from embedexp.batching.plan import Rows
from embedexp.config import compose
from embedexp.config.memory import estimate, gib, longest_share
from embedexp.config.show import show
from embedexp.loss.language import IGNORED
from embedexp.training import averaging
from embedexp.training.contrastive import ContrastiveObjective
from embedexp.training.language_batches import LanguageBatch
from embedexp.training.language_model import LanguageObjective
from embedexp.training.objective import Step

SIZES = ["backbone=tiny", "backbone.architecture.num_hidden_layers=4", "tracking=none"]
LLAMA = ["backbone=tiny_llama", "backbone.architecture.num_hidden_layers=4", "tracking=none"]
PAIRS = run_path(str(Path(__file__).parents[3] / "benchmarks" / "made_up.py"))
STEP = ["batching.size=64", "training.steps=1", "optimizer.warmup_steps=0"]


def made_up(pairs, tokens):
    """A batch of pairs of one length."""
    corpus = PAIRS["corpus"](np.full(2 * pairs, tokens))
    return collate(corpus, [Rows("retrieval", 0, np.arange(pairs))])


def measured(objective, batch, *, mixed=False):
    """Bytes at the peak of a step that is not the first: weights and optimizer state included."""
    trained = [p for p in objective.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)

    def step(number):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            objective.step(batch, Step(number, 1.0, 0, 0, 1, objective))
        optimizer.step()

    step(0)
    held = sum(p.nbytes for p in objective.parameters())
    held += sum(v.nbytes for state in optimizer.state.values() for v in state.values())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(1)
    level = highest = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            level += event.nbytes()
            highest = max(highest, level)
    return held + highest


@pytest.mark.parametrize(
    "overrides",
    [
        SIZES,
        [*SIZES, "training.chunk_tokens=256"],
        [*SIZES, "routing=moe"],
        LLAMA,
        [*SIZES, "backbone.lora={rank: 8, alpha: 16, dropout: 0.0, targets: [all]}"],
    ],
    ids=["one pass", "chunks", "moe", "decoder", "adapters"],
)
def test_the_estimate_is_near_what_a_step_allocates(overrides):
    config = compose([*overrides, *STEP])
    objective = ContrastiveObjective(
        build_embedder(config),
        loss.build(config.loss),
        config.routing,
        config.training.chunk_tokens,
    ).train()
    batch = made_up(64, 24)
    expected = estimate(config, share=batch.layout.tokens).total
    assert expected == pytest.approx(measured(objective, batch), rel=0.25)


@pytest.mark.parametrize("stage", ["mlm", "causal_lm"])
def test_the_estimate_knows_the_head_of_a_language_model(stage):
    base = SIZES if stage == "mlm" else LLAMA
    config = compose([*base, f"stage={stage}", *STEP, "batching.size=12"])
    embedder = build_embedder(config)
    head = heads.load(config.backbone, embedder.model)
    objective = LanguageObjective(config.loss.name, embedder, head, config.routing, None).train()
    tokens = made_up(6, 128).tokens
    labels = tokens.input_ids.clone()
    labels[torch.rand(len(labels)) > getattr(config.loss, "probability", 1.0)] = IGNORED
    batch = LanguageBatch(
        tokens, labels, int((labels != IGNORED).sum()), 12, Layout.single(tokens.lengths.numpy())
    )
    expected = estimate(config, share=batch.layout.tokens).total
    assert expected == pytest.approx(measured(objective, batch), rel=0.25)


def test_more_tokens_take_more_and_chunks_shards_and_recomputation_less():
    config = compose([*SIZES, "batching.size=256"])
    whole = estimate(config).total
    assert estimate(config, share=longest_share(config) // 2).total < whole
    assert estimate(config, chunk_tokens=1024).total < whole
    assert estimate(config, checkpointing=True).total < whole
    large = compose(["backbone=llama_3_1_8b", "backbone.weights=random", "compute=fsdp"])
    assert estimate(large, shards=8).weights == estimate(large, shards=1).weights / 8
    assert estimate(large, shards=8).total < estimate(large, shards=2).total


def test_every_rank_has_a_share_of_the_tokens_and_ddp_the_whole_model():
    alone = compose([*SIZES, "batching.size=64"])
    two = compose([*SIZES, "batching.size=64", "compute=ddp", "compute.devices=2"])
    assert longest_share(two) == longest_share(alone) // 2
    assert estimate(two).weights == estimate(alone).weights
    sharded = compose([*SIZES, "compute=fsdp", "compute.nodes=2", "compute.devices=4"])
    assert estimate(sharded).weights == estimate(alone).weights / 8
    hybrid = sharded.model_copy(
        update={"compute": sharded.compute.model_copy(update={"sharding": "hybrid"})}
    )
    assert estimate(hybrid).weights == estimate(alone).weights / 4


@pytest.mark.parametrize(
    "overrides", [[], ["backbone.lora={rank: 8, alpha: 16, dropout: 0.0, targets: [all]}"]]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_average_of_the_weights_is_counted(overrides, dtype):
    config = compose([*SIZES, *STEP, *overrides, "merge=ema", f"backbone.dtype={dtype}"])
    objective = ContrastiveObjective(
        build_embedder(config), loss.build(config.loss), config.routing, None
    )
    kept = averaging.WeightAverage(config.merge, total=1)
    kept.begin(averaging.weights_of(objective))
    held = sum(value.nbytes for value in kept.tensors.values())
    assert estimate(config).average == pytest.approx(held, rel=0.01)
    assert estimate(compose([*SIZES, *STEP, *overrides])).average == 0


def test_show_says_what_a_step_takes():
    text = " ".join(show(compose(["batching.size=64"])).split())
    needed = estimate(compose(["batching.size=64"]))
    assert f"memory at most {gib(needed.total)} GiB: weights 0.1, optimizer 0.2" in text
    assert f"activations of {needed.tokens:,} tokens" in text
