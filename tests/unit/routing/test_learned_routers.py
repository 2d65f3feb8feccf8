"""What holds for every option with a learned router."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.embedding import build_embedder, load
from embedexp.routing import parameter_counts as by_model

from ..backbone.options import FAMILIES, model_config
from ..embedding.conftest import PROMPTS, TEXTS
from ..embedding.conftest import build as build_for_texts
from ..embedding.test_saving import disturbed

OPTIONS = ("moe", "switch", "token_level", "loss_free", "expert_choice")


@pytest.mark.parametrize("biases", ["per_expert", "shared_output"])
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("family", [*FAMILIES, "minilm"])
def test_arithmetic_agrees_with_the_model(family, option, biases):
    changes = {"routing.biases": biases}
    if "llama" in family:
        changes["backbone.architecture.mlp_bias"] = True
    config = model_config(family, option, changes=changes)
    assert by_arithmetic(config) == by_model(build_embedder(config, device="meta"))


def test_a_mean_of_half_an_expert_counts_as_half_an_expert():
    config = model_config("tiny", "expert_choice", changes={"routing.capacity": 0.5})
    counts = by_arithmetic(config)
    assert counts == by_model(build_embedder(config, device="meta"))
    expert = 2 * 128 * 512 + 512 + 128
    assert counts["total"] - counts["active"] == 7.5 * expert


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("option", OPTIONS)
def test_saved_and_loaded_it_is_the_same_bit_for_bit(family, option, tmp_path):
    changes = {"routing__router_std": 0.3, "routing__biases": "shared_output"}
    embedder = disturbed(build_for_texts(family, option, embedding__prompts=PROMPTS, **changes))
    for name, buffer in embedder.named_buffers():
        if name.endswith("selection_bias"):
            buffer.copy_(torch.linspace(-0.1, 0.1, len(buffer)))
    embedder.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.encode(TEXTS), embedder.encode(TEXTS))
    mine, theirs = embedder.state_dict(), again.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert not np.allclose(
        build_for_texts(family, "dense").encode(TEXTS), embedder.encode(TEXTS), atol=1e-3
    )


@pytest.mark.parametrize("option", OPTIONS)
def test_sentence_transformers_loads_it(option, tmp_path):
    module = pytest.importorskip("sentence_transformers")
    embedder = disturbed(build_for_texts("tiny", option))
    embedder.save(tmp_path / "model")
    theirs = module.SentenceTransformer(
        str(tmp_path / "model"), device="cpu", trust_remote_code=True
    )
    np.testing.assert_allclose(theirs.encode(TEXTS), embedder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("option", OPTIONS)
def test_recomputation_decides_as_the_first_pass_did(option):
    from .test_upcycling import MIXED

    plain = build_for_texts("tiny", option, backbone__dropout=0.0, routing__router_std=0.3)
    recomputing = copy.deepcopy(plain).train()
    recomputing.model.activation_checkpointing_enable()
    for model in (plain, recomputing):
        model(MIXED).vectors.cos().sum().backward()
    for a, b in zip(plain.parameters(), recomputing.parameters(), strict=True):
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-5)
