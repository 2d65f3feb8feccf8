from __future__ import annotations

import subprocess
import sys

import pytest

from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.backbone.counts import routed_layers
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder
from embedexp.routing import parameter_counts as by_model

from .options import FAMILIES, model_config


@pytest.mark.parametrize("routing", ["dense", "moe", "mote"])
@pytest.mark.parametrize("backbone", [*FAMILIES, "minilm"])
def test_arithmetic_agrees_with_the_model(backbone, routing):
    config = model_config(backbone, routing)
    assert by_arithmetic(config) == by_model(build_embedder(config, device="meta"))


@pytest.mark.parametrize("bias", [True, False])
def test_arithmetic_knows_biases_and_head_sizes(bias):
    config = model_config(
        "tiny_llama",
        "moe",
        changes={
            "backbone.architecture.attention_bias": bias,
            "backbone.architecture.mlp_bias": bias,
            "backbone.architecture.head_dim": 48,
        },
    )
    assert by_arithmetic(config) == by_model(build_embedder(config, device="meta"))


def test_depth_is_what_is_kept():
    config = model_config("minilm", "moe", changes={"backbone.layers": 3})
    assert by_arithmetic(config) == by_model(build_embedder(config, device="meta"))


def test_minilm_has_its_22_7_million_parameters():
    pooler = 384 * 384 + 384
    assert by_arithmetic(model_config("minilm"))["total"] + pooler == 22_713_216


def test_published_llama_8b_count():
    architecture = {
        "model_type": "llama",
        "vocab_size": 128256,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
    }
    config = model_config("tiny_llama", changes={"backbone.architecture": architecture})
    assert by_arithmetic(config)["total"] == 7_504_924_672


def test_experts_that_a_token_does_not_meet_are_stored_but_not_active():
    dense, mote = (by_arithmetic(model_config("tiny", r)) for r in ("dense", "mote"))
    assert mote["active"] == dense["active"] == dense["total"]
    mlp, norms = 2 * 128 * 512 + 512 + 128, 4 * 128
    assert mote["total"] - dense["total"] == 2 * 3 * (mlp + norms)

    moe = by_arithmetic(model_config("tiny", "moe", changes={"routing.placement": [1]}))
    assert moe["total"] - dense["total"] == 7 * mlp + 8 * 128
    assert moe["active"] - dense["active"] == mlp + 8 * 128


@pytest.mark.parametrize("key", ["type_vocab_size", "hidden_size", "num_hidden_layers"])
def test_a_value_that_the_architecture_lacks_is_named(key):
    config = model_config()
    del config.backbone.architecture[key]
    with pytest.raises(UserError, match=f"architecture lacks {key}"):
        by_arithmetic(config)


def test_placements():
    assert routed_layers("every", 3) == [0, 1, 2]
    assert routed_layers("every_other", 6) == [1, 3, 5]
    assert routed_layers([4, 2, 2], 6) == [2, 4]


def test_counting_imports_no_torch():
    code = "import sys, embedexp.backbone.counts; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
