"""Published sizes, by arithmetic and from models on the meta device."""

from __future__ import annotations

import pytest

from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.embedding import build_embedder
from embedexp.routing import parameter_counts as by_model

from ..backbone.options import model_config

EXPERT = 2 * 768 * 3072  # two matrices
GATED = 3 * 768 * 3072
NOMIC = {
    "placement": "every_other",
    "num_experts": 8,
    "top_k": 2,
    "biases": "shared_output",
    "renormalize": "none",
}


def counts(backbone, option="dense", **changes):
    config = model_config(
        backbone, option, changes={f"routing.{key}": value for key, value in changes.items()}
    )
    found = by_arithmetic(config)
    assert found == by_model(build_embedder(config, device="meta"))
    return found


def test_nomic_embed_v2_has_475_million_parameters_of_which_305_are_active():
    dense, moe = counts("mnomic_bert"), counts("mnomic_bert", "moe", **NOMIC)
    # The base without a table of positions, seven more experts in six layers, routers; each of
    # those layers loses its inner bias, and keeps one output bias.
    routers, dropped = 6 * 768 * 8, 6 * 3072
    assert moe["total"] == dense["total"] + 6 * 7 * EXPERT + routers - dropped == 475_257_600
    assert moe["active"] == dense["total"] + 6 * EXPERT + routers - dropped == 305_388_288


def test_mote_stores_three_more_experts_per_layer_and_meets_as_many_as_the_dense_model():
    dense, mote = counts("nomic_bert_2048"), counts("nomic_bert_2048", "mote")
    norms = 2 * 2 * 768
    assert 12 * 3 * GATED == 254_803_968
    assert mote["total"] - dense["total"] == 12 * 3 * (GATED + norms)
    assert mote["active"] == dense["active"] == dense["total"]


@pytest.mark.parametrize(
    ("option", "met"),
    [("moe", 2), ("switch", 1), ("token_level", 1), ("loss_free", 2), ("expert_choice", 2)],
)
def test_a_token_meets_its_experts_and_the_router(option, met):
    dense = counts("nomic_bert_2048")
    found = counts("nomic_bert_2048", option, placement=[1, 4, 7], num_experts=8)
    assert found["total"] - dense["total"] == 3 * (7 * GATED + 8 * 768)
    assert found["active"] - dense["active"] == 3 * ((met - 1) * GATED + 8 * 768)
