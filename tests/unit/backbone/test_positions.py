"""Rotary instead of absolute positions, against BERT and XLM-R that rotate inside attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AttentionInterface, AutoConfig, AutoModel
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from embedexp import backbone
from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder, load
from embedexp.routing import parameter_counts as by_model

from .options import model_config
from .test_families import ARCHITECTURES, pack, packed_forward

FAMILIES = ("bert", "xlm-roberta")
BASE = 500.0
TEXTS = ["a small furry animal", "rain", "the sun rises in the east and sets in the west"]


def config(family, routing="dense", **changes):
    return model_config(
        "tiny",
        routing,
        changes={
            "backbone.architecture": dict(ARCHITECTURES[family]),
            "backbone.positions": {"base": BASE, "max_length": 2048},
            "backbone.dropout": 0.0,
            **changes,
        },
    )


def rotate(rows, base):
    """Rotary positions by definition, in float64: pair i of d / 2 turns by place * base^(-2i/d)."""
    places, size = rows.shape[-2], rows.shape[-1]
    angles = np.outer(np.arange(places), base ** (-np.arange(0, size, 2) / size))
    cos, sin = torch.from_numpy(np.cos(angles)), torch.from_numpy(np.sin(angles))
    first, second = rows.double().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(rows.dtype)


def rotating_attention(module, query, key, value, mask, scaling=None, **kwargs):
    query, key = rotate(query, BASE), rotate(key, BASE)
    output = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask)
    return output.transpose(1, 2), None


AttentionInterface.register("test_rotating", rotating_attention)
AttentionMaskInterface.register("test_rotating", sdpa_mask)


@pytest.fixture(params=FAMILIES)
def absolute(request, tmp_path):
    """A model with absolute positions and large weights, and its folder."""
    torch.manual_seed(0)
    configuration = AutoConfig.for_model(**ARCHITECTURES[request.param])
    model = AutoModel.from_config(configuration, add_pooling_layer=True).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(tmp_path / "source")
    return request.param, model, tmp_path / "source"


def converted(family, folder, **changes):
    changes = {"backbone.source": str(folder), "backbone.weights": "pretrained", **changes}
    return config(family, **{"backbone.tokenizer": "builtin", **changes})


def test_converted_weights_equal_the_absolute_model_that_rotates_in_attention(absolute):
    family, model, folder = absolute
    rotary, _ = backbone.load(converted(family, folder).backbone)
    with torch.no_grad():
        model.embeddings.position_embeddings.weight.zero_()
    model.set_attn_implementation("test_rotating")
    batch = pack([40, 7, 1, 33])
    ids, mask = batch.padded()
    expected = model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    found = packed_forward(rotary, batch, "bidirectional")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert expected.std() > 0.1


def test_converted_models_know_order_but_not_place(absolute):
    family, _, folder = absolute
    rotary, _ = backbone.load(converted(family, folder).backbone)
    batch = pack([600])  # beyond the 64 positions of the source
    found = packed_forward(rotary, batch, "bidirectional")
    moved = packed_forward(rotary, shifted(batch, 1000), "bidirectional")
    torch.testing.assert_close(moved, found, atol=1e-4, rtol=0)
    backwards = type(batch)(batch.input_ids.flip(0), batch.cu_seqlens, batch.task_ids, batch.roles)
    reordered = packed_forward(rotary, backwards, "bidirectional").flip(0)
    assert (reordered - found).abs().max() > 0.01


def shifted(batch, by):
    class Shifted(type(batch)):
        @property
        def position_ids(self):
            return super().position_ids + by

    return Shifted(batch.input_ids, batch.cu_seqlens, batch.task_ids, batch.roles)


def test_the_base_counts(absolute):
    family, _, folder = absolute
    batch = pack([40])
    outputs = [
        packed_forward(backbone.load(own.backbone)[0], batch, "bidirectional")
        for own in (
            converted(family, folder),
            converted(family, folder, **{"backbone.positions.base": 10_000.0}),
        )
    ]
    assert (outputs[0] - outputs[1]).abs().max() > 0.01


@pytest.mark.parametrize("routing", ["dense", "moe", "mote"])
def test_converted_models_are_saved_and_loaded(absolute, routing, tmp_path):
    family, _, folder = absolute
    own = converted(family, folder, **{"backbone.layers": 2})
    own = own.model_copy(update={"routing": config(family, routing).routing})
    embedder = build_embedder(own).eval()
    expected = embedder.encode(TEXTS)
    embedder.save(tmp_path / "model")
    assert abs(load(tmp_path / "model").encode(TEXTS) - expected).max() <= 1e-6
    theirs = SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True, device="cpu")
    assert abs(theirs.encode(TEXTS) - expected).max() <= 1e-5
    assert by_arithmetic(own) == by_model(embedder)
    if routing == "dense":  # an export is a source again, converted already
        again = converted(family, tmp_path / "model", **{"backbone.tokenizer": None})
        again.backbone.architecture["num_hidden_layers"] = 2
        assert abs(build_embedder(again).encode(TEXTS) - expected).max() <= 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_table_of_positions_is_gone(family):
    kept, gone = config(family, **{"backbone.positions": None}), config(family)
    table = 64 * 32
    assert by_arithmetic(kept)["total"] - by_arithmetic(gone)["total"] == table
    assert by_arithmetic(gone) == by_model(build_embedder(gone, device="meta"))


def test_only_absolute_positions_are_converted():
    with pytest.raises(UserError, match="positions of nomic_bert cannot be converted"):
        build_embedder(config("nomic_bert"), device="meta")
    with pytest.raises(UserError, match="tiny_llama is of the family llama"):
        compose(["backbone=tiny_llama", "backbone.positions={base: 10000, max_length: 64}"])


@pytest.mark.parametrize("key", ["layer_norm_eps", "pad_token_id", "type_vocab_size"])
def test_values_with_other_defaults_must_be_stated(key):
    own = config("bert")
    del own.backbone.architecture[key]
    with pytest.raises(UserError, match=f"architecture lacks {key}"):
        build_embedder(own, device="meta")


def test_texts_may_be_as_long_as_the_new_positions():
    positions = "backbone.positions={base: 10000, max_length: 2048}"
    compose(["backbone=tiny", positions, "embedding.document_tokens=2048"])
    with pytest.raises(UserError, match="2048 positions"):
        compose(["backbone=tiny", positions, "embedding.document_tokens=2049"])
    with pytest.raises(UserError, match="512 positions"):
        compose(["backbone=tiny", "embedding.document_tokens=513"])
