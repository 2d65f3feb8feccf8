"""Every family: packed is padded, causal is causal, counts agree, models come back as saved."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers import SentenceTransformer

from embedexp import backbone
from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.backbone.families import FAMILIES, family_of
from embedexp.backbone.loading import build as build_model
from embedexp.batching.token_batch import TokenBatch
from embedexp.config import model_checks
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder, load
from embedexp.routing import parameter_counts as by_model

from .architectures import ARCHITECTURES, CAUSAL, OWN_EXPERTS
from .options import model_config
from .test_attention import pack, packed_forward

LENGTHS = [3, 17, 1, 9, 9, 30, 2, 16, 28, 29]
TEXTS = ["a small furry animal", "rain", "the sun rises in the east and sets in the west"]


def config(family, routing="dense", **changes):
    return model_config(
        "tiny",
        routing,
        mask_schedule="causal" if family in CAUSAL else "bidirectional",
        changes={
            "backbone.architecture": dict(ARCHITECTURES[family]),
            "backbone.dropout": 0.0,
            "embedding.query_tokens": 32,
            "embedding.document_tokens": 32,
            **changes,
        },
    )


def build(family, **changes):
    torch.manual_seed(0)
    model, _ = backbone.load(config(family, **changes).backbone)
    with torch.no_grad():  # far from initialisation, so that attention and routers are not flat
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)
    return model.train()


def padded_forward(model, batch):
    """What transformers' own eager attention does with the padded batch, as packed rows."""
    ids, mask = batch.padded()
    ids = ids.masked_fill(~mask.bool(), model.config.pad_token_id or 0)
    model.set_attn_implementation("eager")
    try:
        return model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    finally:
        model.set_attn_implementation("embedexp_packed")


def own_mask(family):
    return "causal" if family in CAUSAL else "bidirectional"


def gradients(model, hidden):
    weights = torch.linspace(-1, 1, hidden.numel()).view_as(hidden)
    model.zero_grad()
    (hidden * weights).mean().backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def test_every_family_is_tested():
    names = {family.model_type for family in FAMILIES.values()}
    assert {family_of(a).model_type for a in ARCHITECTURES.values()} == names


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_packed_equals_transformers_padded_with_gradients(family):
    model, batch = build(family), pack(LENGTHS)
    packed, padded = packed_forward(model, batch, own_mask(family)), padded_forward(model, batch)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)
    assert padded.std() > 0.1
    ours, theirs = gradients(model, packed), gradients(model, padded)
    assert ours.keys() == theirs.keys()
    largest = max(g.abs().max() for g in theirs.values())
    assert largest > 1e-4
    for name in theirs:
        assert ours[name].isfinite().all()
        assert (ours[name] - theirs[name]).abs().max() <= 1e-4 * largest, name


@pytest.mark.parametrize("padding", [0, 1, 3])
def test_positions_of_xlm_roberta_start_behind_its_padding_index(padding):
    own = config("xlm-roberta")
    own.backbone.architecture["pad_token_id"] = padding
    torch.manual_seed(0)
    model, batch = build_model(own.backbone).eval(), pack([9, 4, 20])
    packed = packed_forward(model, batch, "bidirectional")
    torch.testing.assert_close(packed, padded_forward(model, batch), atol=1e-5, rtol=1e-5)
    table = model.embeddings.position_embeddings.weight
    packed.sum().backward()
    used = table.grad.abs().sum(-1).nonzero().flatten().tolist()
    assert used == list(range(padding + 1, padding + 21))
    if padding:  # the built-in tokenizer's is 0
        with pytest.raises(UserError, match=f"pads with token 0, the model with {padding}"):
            backbone.load(own.backbone)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_future_token_counts_where_the_family_looks_ahead(family):
    model, batch = build(family), pack([20, 12])
    changed = batch.input_ids.clone()
    changed[19] = 4
    future = TokenBatch(changed, batch.cu_seqlens, batch.task_ids, batch.roles)
    before, after = (packed_forward(model, b, own_mask(family)) for b in (batch, future))
    # Experts get another number of rows, whose products some processors round otherwise.
    assert bool((before[:19] - after[:19]).abs().max() > 1e-5) is (family not in CAUSAL)
    assert (before[19] - after[19]).abs().max() > 1e-5
    torch.testing.assert_close(before[20:], after[20:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["mistral", "qwen2", "qwen2_moe", "modernbert"])
def test_a_window_ends_what_is_seen_under_every_mask(family):
    """One layer of it, so that nothing is seen through others."""
    model = build(family)
    layer = next(
        (i for i, kind in enumerate(getattr(model.config, "layer_types", None) or [])
         if kind == "sliding_attention"),
        0,
    )  # fmt: skip
    model.layers = torch.nn.ModuleList([model.layers[layer]])
    batch = pack([24, 24, 5])
    changed = batch.input_ids.clone()
    changed[0] = 4
    other = TokenBatch(changed, batch.cu_seqlens, batch.task_ids, batch.roles)
    model.config.num_hidden_layers = 1
    reach = 5  # a window of 6 tokens with itself, or 4 to each side
    for mask in ("causal", "bidirectional"):
        before, after = (packed_forward(model, b, mask) for b in (batch, other))
        moved = (before != after).any(-1)[:24]
        assert moved[1:4].all()
        assert not moved[reach + 1 :].any()


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_arithmetic_agrees_with_the_model(family):
    for layers in (None, 2):
        own = config(family, **{"backbone.layers": layers})
        counts = by_arithmetic(own)
        assert counts == by_model(build_embedder(own, device="meta"))
        assert (counts["active"] < counts["total"]) is (family in OWN_EXPERTS)


@pytest.mark.parametrize("routing", ["moe", "mote"])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_dense_mlps_are_routed_and_experts_are_not(family, routing):
    exact = {"routing.renormalize": "topk"} if routing == "moe" else {}
    own = config(family, routing, **exact)
    if family in OWN_EXPERTS:
        with pytest.raises(UserError, match="experts of its own"):
            build_embedder(own)
        return
    routed, dense = build_embedder(own), build_embedder(config(family))
    assert by_arithmetic(own) == by_model(routed)
    assert by_model(routed)["total"] > by_model(dense)["total"]
    expected, found = (e.encode(TEXTS, task="search_query") for e in (dense, routed))
    assert abs(found - expected).max() <= 1e-5


@pytest.mark.parametrize("layers", [None, 2])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_exports_come_back_and_load_in_sentence_transformers(family, layers, tmp_path):
    embedder = build_embedder(config(family, **{"backbone.layers": layers})).eval()
    embedder.save(tmp_path / "model")
    expected = embedder.encode(TEXTS)
    again = load(tmp_path / "model")
    assert abs(again.encode(TEXTS) - expected).max() <= 1e-6
    again.save(tmp_path / "again")
    assert abs(load(tmp_path / "again").encode(TEXTS) - expected).max() <= 1e-6
    # AutoModel does not know DeepSeekMoE, and AutoTokenizer gives Qwen2 no tokenizer but its own.
    plain = family not in ("deepseek", "qwen2")
    assert (tmp_path / "model" / "config.json").is_file() is plain
    theirs = SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True, device="cpu")
    assert abs(theirs.encode(TEXTS) - expected).max() <= 1e-5


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_checkpoint_of_transformers_loads(family, tmp_path):
    own = build(family)
    own.save_pretrained(tmp_path)
    changes = {"backbone.source": str(tmp_path), "backbone.weights": "pretrained"}
    again, _ = backbone.load(config(family, **changes).backbone)
    ours, theirs = dict(again.named_parameters()), dict(own.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_checks_know_the_same_families():
    experts = {name for name, family in FAMILIES.items() if family.own_experts}
    assert experts == model_checks.OWN_EXPERTS
    encoders = {name for name, family in FAMILIES.items() if not family.causal}
    assert encoders <= model_checks.ENCODERS
