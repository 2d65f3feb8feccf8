"""Adapters: what is trained, what is exported, and that they vanish."""

from __future__ import annotations

import copy
import json
import sys

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.backbone.lora import merged
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder, load
from embedexp.routing import parameter_counts as by_model

from .options import model_config
from .test_families import ARCHITECTURES, pack

TEXTS = ["a small furry animal", "rain", "the sun rises in the east and sets in the west"]
FAMILIES = ("bert", "llama", "nomic_bert", "olmoe")


def config(family="bert", **changes):
    return model_config(
        "tiny",
        mask_schedule="causal" if family in ("llama", "olmoe") else "bidirectional",
        changes={
            "backbone.architecture": dict(ARCHITECTURES[family]),
            "backbone.dropout": 0.0,
            "backbone.lora": {"rank": 4, "alpha": 8.0, "dropout": 0.0, "targets": ["all"]},
            "embedding.query_tokens": 32,
            "embedding.document_tokens": 32,
            **changes,
        },
    )


def step(embedder, times=2):
    """Train on anything."""
    trained = [p for p in embedder.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=1.0)
    embedder.train()
    for _ in range(times):  # the first step moves the second factor only
        optimizer.zero_grad()
        vectors = embedder(pack([9, 4, 20])).vectors
        (vectors * torch.linspace(-1, 1, vectors.numel()).view_as(vectors)).sum().backward()
        optimizer.step()
    return embedder.eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_only_adapters_move_and_the_export_is_the_plain_merged_model(family, tmp_path):
    own = config(family)
    embedder = build_embedder(own)
    before = embedder.encode(TEXTS)
    base = {"backbone.lora": None}
    assert abs(before - build_embedder(config(family, **base)).encode(TEXTS)).max() <= 1e-6

    start = copy.deepcopy(embedder.state_dict())
    after = step(embedder).encode(TEXTS)
    assert abs(after - before).max() > 1e-3
    moved = {name for name, value in embedder.state_dict().items()
             if not torch.equal(value, start[name])}  # fmt: skip
    assert moved == {name for name in start if "lora_" in name}

    embedder.save(tmp_path / "model")
    plain = load(tmp_path / "model")
    assert abs(plain.encode(TEXTS) - after).max() <= 1e-5
    names = {name for name, _ in build_embedder(config(family, **base)).named_parameters()}
    assert {name for name, _ in plain.named_parameters()} == names
    assert not any("lora" in name for name in load_file(tmp_path / "model" / "model.safetensors"))
    saved = json.loads((tmp_path / "model" / "embedexp.json").read_text())
    assert saved["model"]["backbone"]["lora"] is None
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert abs(theirs.encode(TEXTS) - after).max() <= 1e-5

    assert abs(embedder.encode(TEXTS) - after).max() == 0  # saving leaves the adapters as they were
    assert by_arithmetic(own) == by_model(embedder) == by_model(plain)


def test_the_update_is_alpha_over_rank_times_both_factors():
    embedder = step(build_embedder(config()))
    layer = embedder.model.encoder.layer[0].attention.self.query
    update = layer.lora_B["default"].weight.double() @ layer.lora_A["default"].weight.double()
    expected = layer.base_layer.weight.double() + 8.0 / 4 * update
    with merged(embedder.model):
        found = embedder.model.encoder.layer[0].attention.self.query.weight
        assert type(embedder.model.encoder.layer[0].attention.self.query) is torch.nn.Linear
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=0)
    assert (found - layer.base_layer.weight).abs().max() > 1e-4


def test_adapters_are_a_function_of_the_seed():
    first, second = (build_embedder(config()).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    factors = [name for name in first if "lora_A" in name]
    assert len(factors) == 3 * 6
    assert all(first[name].abs().max() > 0 for name in factors)


def test_targets_choose_layers():
    embedder = build_embedder(config(**{"backbone.lora.targets": ["query", "output.dense"]}))
    adapted = {
        name.split(".lora_A")[0] for name, _ in embedder.named_parameters() if "lora_A" in name
    }
    assert len(adapted) == 3 * 3  # queries, and the output of attention and of the MLP
    assert all(name.endswith((".query", ".output.dense")) for name in adapted)


def test_a_target_that_is_no_layer_suggests_the_nearest():
    with pytest.raises(UserError, match=r"called qery(.|\n)*did you mean query"):
        build_embedder(config(**{"backbone.lora.targets": ["qery"]}))
    with pytest.raises(UserError, match="choose from: all, query, key, value, dense"):
        build_embedder(config(**{"backbone.lora.targets": ["zzz"]}))


def test_without_peft_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(UserError, match=r"pip install embedexp\[lora\]"):
        build_embedder(config())


def test_adapters_do_not_go_with_experts():
    lora = "backbone.lora={rank: 4, alpha: 8, dropout: 0, targets: [all]}"
    with pytest.raises(UserError, match=r"adapters only, and routing=moe(.|\n)*routing=dense"):
        compose(["backbone=tiny", "routing=moe", lora])
    routed = config().model_copy(update={"routing": model_config("tiny", "moe").routing})
    with pytest.raises(UserError, match="adapters only"):
        build_embedder(routed)
