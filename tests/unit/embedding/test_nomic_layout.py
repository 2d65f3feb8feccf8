"""The published layout against a float64 forward pass written from its tensors and keys alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import gelu, layer_norm, silu

from embedexp.backbone import nomic_layout
from embedexp.config.errors import UserError
from embedexp.embedding import export, load, saving

from .conftest import PROMPTS, build

ROTARY = {"backbone__positions": {"base": 10000.0, "max_length": 2048}}
NOMIC = {"routing__renormalize": "none", "routing__biases": "shared_output"}
GATED = {
    "backbone__architecture": {
        "model_type": "nomic_bert",
        "vocab_size": 8192,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "hidden_act": "silu",
        "max_position_embeddings": 2048,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0},
    }
}
KINDS = {
    "experts": (("tiny", "moe"), ROTARY | NOMIC),
    "experts of four layers": (
        ("tiny", "moe"),
        ROTARY | NOMIC | {"backbone__architecture__num_hidden_layers": 4, "routing__top_k": 1},
    ),
    "dense": (("tiny",), ROTARY),
    "gated": (("tiny",), GATED),
}


@pytest.fixture(scope="module", params=KINDS)
def exported(request, tmp_path_factory):
    """An embedder whose weights all differ, and its folder without anything of ours."""
    names, changes = KINDS[request.param]
    embedder = build(*names, embedding__prompts=PROMPTS, embedding__query_tokens=16, **changes)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in embedder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    folder = tmp_path_factory.mktemp("exported") / "model"
    with saving.staged(folder) as staging:
        export.write(embedder, "nomic", staging)
    (folder / "embedexp.json").unlink()
    return embedder, folder


def reference(folder, ids):
    """Mean of the last hidden states of one text, normalised, in float64."""
    raw = json.loads((folder / "config.json").read_text())
    state = {k: v.double() for k, v in load_file(folder / "model.safetensors").items()}
    heads, width, eps = raw["n_head"], raw["n_embd"], raw["layer_norm_epsilon"]
    size, length = width // heads, len(ids)

    def norm(x, name):
        return layer_norm(x, (width,), state[f"{name}.weight"], state[f"{name}.bias"], eps)

    def linear(x, name):
        bias = state.get(f"{name}.bias", 0)
        return x @ state[f"{name}.weight"].T + bias

    frequencies = raw["rotary_emb_base"] ** (-torch.arange(0, size, 2).double() / size)
    angles = torch.arange(length).double()[:, None] * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]

    def rotate(x):
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    x = state["embeddings.word_embeddings.weight"][ids]
    x = norm(x + state["embeddings.token_type_embeddings.weight"][0], "emb_ln")
    for layer in range(raw["n_layer"]):
        block = f"encoder.layers.{layer}"
        q, k, v = linear(x, f"{block}.attn.Wqkv").view(length, 3, heads, size).unbind(1)
        scores = torch.einsum("ihd,jhd->hij", rotate(q), rotate(k)) / size**0.5
        mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(length, width)
        x = norm(x + linear(mixed, f"{block}.attn.out_proj"), f"{block}.norm1")
        x = norm(x + mlp(raw, state, block, layer, x, linear), f"{block}.norm2")
    pooled = x.mean(0)
    return pooled / pooled.norm()


def mlp(raw, state, block, layer, x, linear):
    every = raw["moe_every_n_layers"]
    if every and layer % every == 1:
        inner, width = raw["n_inner"], raw["n_embd"]
        p = (x @ state[f"{block}.mlp.router.layer.weight"].T).softmax(-1)
        w1 = state[f"{block}.mlp.experts.mlp.w1"].view(-1, inner, width)
        w2 = state[f"{block}.mlp.experts.mlp.w2"].view(-1, inner, width)
        y = state[f"{block}.mlp.experts.bias"].repeat(len(x), 1)
        for row in range(len(x)):
            for e in p[row].topk(raw["moe_top_k"]).indices.tolist():
                y[row] += p[row, e] * (gelu(x[row] @ w1[e].T) @ w2[e])
        return y
    if raw["activation_function"] == "swiglu":
        gate = silu(linear(x, f"{block}.mlp.fc12"))
        return linear(linear(x, f"{block}.mlp.fc11") * gate, f"{block}.mlp.fc2")
    return linear(gelu(linear(x, f"{block}.mlp.fc1")), f"{block}.mlp.fc2")


def test_the_folder_computes_by_its_own_names_what_the_model_does(exported, texts):
    embedder, folder = exported
    tokenizer = embedder.text_tokenizer
    vectors = embedder.encode(texts, task="search_document")
    for text, vector in zip(texts, vectors, strict=True):
        expected = reference(folder, tokenizer("document: " + text)["input_ids"])
        np.testing.assert_allclose(vector, expected.numpy(), atol=1e-6)


def test_a_folder_without_our_file_is_read_back(exported, texts):
    embedder, folder = exported
    again = load(folder)
    assert again.config.embedding == embedder.config.embedding
    for task in PROMPTS:
        np.testing.assert_allclose(
            again.encode(texts, task=task), embedder.encode(texts, task=task), atol=1e-6
        )


def test_names_and_shapes_are_the_published_ones(exported):
    _, folder = exported
    raw = json.loads((folder / "config.json").read_text())
    shapes = {k: tuple(v.shape) for k, v in load_file(folder / "model.safetensors").items()}
    width, inner = raw["n_embd"], raw["n_inner"]
    prefix = "encoder.layers.1"
    assert shapes[f"{prefix}.attn.Wqkv.weight"] == (3 * width, width)
    assert {"emb_ln.weight", "embeddings.token_type_embeddings.weight"} <= shapes.keys()
    if raw["moe_every_n_layers"]:
        assert {k: v for k, v in shapes.items() if k.startswith(f"{prefix}.mlp.")} == {
            f"{prefix}.mlp.router.layer.weight": (8, width),
            f"{prefix}.mlp.experts.mlp.w1": (8 * inner, width),
            f"{prefix}.mlp.experts.mlp.w2": (8 * inner, width),
            f"{prefix}.mlp.experts.bias": (width,),
        }
        assert raw["moe_normalize_expert_weights"] is False
        assert all(raw[key] is True for key in nomic_layout.BIASES)
    assert raw["architectures"] == ["NomicBertModel"]
    assert raw["n_positions"] == raw["max_trained_positions"] == 2048


def test_language_model_checkpoints_have_a_prefix_and_a_head(exported, texts, tmp_path):
    embedder, folder = exported
    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    state = {f"bert.{k}": v for k, v in load_file(folder / "model.safetensors").items()}
    state["cls.predictions.transform.dense.weight"] = torch.zeros(2, 2)
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "modules.json").unlink()
    np.testing.assert_allclose(load(tmp_path).encode(texts), embedder.encode(texts), atol=1e-6)


@pytest.mark.parametrize(
    ("names", "changes", "reason"),
    [
        (("tiny", "moe"), NOMIC, "its backbone is bert"),
        (("tiny", "moe"), ROTARY, "renormalize=topk"),
        (("tiny", "moe"), ROTARY | NOMIC | {"routing__biases": "per_expert"}, "biases=per_expert"),
        (("tiny", "moe"), ROTARY | NOMIC | {"routing__placement": "every"}, "placement=every"),
        (("tiny", "mote"), ROTARY, "routing=mote"),
        (("tiny", "moe"), GATED | NOMIC, "its experts are gated"),
    ],
)
def test_a_model_of_another_kind_is_refused_by_its_first_difference(
    names, changes, reason, tmp_path
):
    embedder = build(*names, **changes)
    with (
        pytest.raises(UserError, match=reason) as error,
        saving.staged(tmp_path / "model") as folder,
    ):
        export.write(embedder, "nomic", folder)
    assert len(str(error.value).splitlines()) <= 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("prenorm", True, "prenorm=True"),
        ("rotary_emb_interleaved", True, "rotary_emb_interleaved=True"),
        ("num_shared_experts", 1, "num_shared_experts=1"),
        ("qkv_proj_bias", False, "qkv_proj_bias=False with activation_function=gelu"),
        ("activation_function", "relu", "activation_function=relu"),
    ],
)
def test_a_published_model_of_another_kind_is_not_read_as_this_one(key, value, message):
    raw = {"model_type": "nomic_bert", "n_embd": 8, "activation_function": "gelu", key: value}
    with pytest.raises(UserError, match=message):
        nomic_layout.architecture(raw)
