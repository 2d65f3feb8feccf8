"""Rounding to NF4: the arithmetic, what is rounded and what is not, and where it is refused."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BitsAndBytesConfig

from embedexp import backbone
from embedexp.backbone.families import family_of
from embedexp.backbone.positions import native
from embedexp.backbone.quantization import rounding
from embedexp.backbone.quiet import quiet
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder, load

from .architectures import ARCHITECTURES, OWN_EXPERTS
from .test_families import build, config

LEVELS = [  # QLoRA, appendix E
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip


FUSED = {"jina_embeddings_v3", "nomic_bert"}
"""Families whose checkpoints have queries, keys and values in one matrix, where transformers' model
has three: they are rounded as three."""


def dynamic_levels():
    """The 8-bit levels of the scales: 7 powers of ten, each with twice the steps of the former."""
    found = [0.0, 1.0]
    for power in range(7):
        bounds = np.linspace(0.1, 1, 2**power + 1)
        for value in (bounds[1:] + bounds[:-1]) / 2 * 10.0 ** (power - 6):
            found += [value, -value]
    return found


def nearest(value, levels):
    return min(levels, key=lambda level: abs(level - value))


def by_hand(matrix):
    """Double-quantised NF4 in blocks of 64 and 256, one number after the other, in float64."""
    flat, levels = matrix.double().flatten().tolist(), dynamic_levels()
    blocks = [flat[i : i + 64] for i in range(0, len(flat), 64)]
    scales = [max(abs(value) for value in block) for block in blocks]
    mean = sum(scales) / len(scales)
    kept = []
    for i in range(0, len(scales), 256):
        apart = [scale - mean for scale in scales[i : i + 256]]
        most = max(abs(value) for value in apart)
        kept += [nearest(value / most, levels) * most + mean for value in apart]
    rounded = [
        nearest(value / scale, LEVELS) * again
        for block, scale, again in zip(blocks, scales, kept, strict=True)
        for value in block
    ]
    return torch.tensor(rounded, dtype=torch.float64).view_as(matrix)


def saved(family, folder, **changes):
    """A model in transformers' own form: one matrix per expert, as transformers 4 kept them."""
    model = build(family, **changes)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # norms and biases are not ones and zeros
                parameter.add_(torch.randn(parameter.shape).mul(0.1))
    with quiet():
        model.save_pretrained(folder)


def loaded(family, folder, **changes):
    changes = {f"backbone.{key}": value for key, value in changes.items()}
    given = {"backbone.source": str(folder), "backbone.weights": "pretrained", **changes}
    model, _ = backbone.load(config(family, **given).backbone)
    return model


def same(first, second):
    ours, theirs = first.state_dict(), second.state_dict()
    assert ours.keys() == theirs.keys()
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("shape", [(70, 300), (8, 64), (3, 70)])
def test_it_is_the_arithmetic_of_the_paper(shape):
    """Two blocks of scales in the first shape, and blocks across the ends of rows.

    The seed is one without ties: close to one, the kernel may take the second nearest scale, which
    it finds in a table (measured: one scale in 300).
    """
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    expected = by_hand(matrix)
    torch.testing.assert_close(rounding()(matrix).double(), expected, atol=1e-6, rtol=1e-6)
    assert 0.05 < (expected - matrix).abs().mean() / matrix.abs().mean() < 0.12
    half = matrix.bfloat16()
    found = rounding()(half)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), by_hand(half), atol=1e-6, rtol=2**-8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_dense_model_has_the_weights_of_transformers_4_bit_loading(dtype, tmp_path):
    """Rows are whole blocks: with AVX-512, bitsandbytes 0.50 reads others back wrongly."""
    wide = {**ARCHITECTURES["llama"], "hidden_size": 64, "intermediate_size": 128}
    saved("llama", tmp_path, **{"backbone.architecture": wide})
    option = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True
    )
    with quiet():
        theirs = AutoModel.from_pretrained(
            tmp_path, quantization_config=option, device_map="cpu", dtype=dtype
        ).dequantize(dtype=getattr(torch, dtype))
    ours = loaded("llama", tmp_path, architecture=wide, quantization="nf4", dtype=dtype)
    assert same(ours, theirs)


@pytest.mark.parametrize("family", sorted(ARCHITECTURES.keys() - FUSED))
def test_each_matrix_of_a_checkpoint_is_rounded_by_itself(family, tmp_path):
    """Loading rounded is loading what was rounded before, by the names of transformers 4."""
    saved(family, tmp_path / "exact")
    known = family_of(native(config(family).backbone))
    state = load_file(tmp_path / "exact" / "model.safetensors")
    for name, value in state.items():
        linear = known.linear_router or not name.endswith("gate.weight")
        if f"{known.blocks}." in name and value.ndim == 2 and linear:
            state[name] = rounding()(value)
    (tmp_path / "rounded").mkdir()
    save_file(state, tmp_path / "rounded" / "model.safetensors", metadata={"format": "pt"})
    text = (tmp_path / "exact" / "config.json").read_text()
    (tmp_path / "rounded" / "config.json").write_text(text)

    found = loaded(family, tmp_path / "exact", quantization="nf4")
    assert same(found, loaded(family, tmp_path / "rounded"))
    exact = loaded(family, tmp_path / "exact").state_dict()
    kept = {name for name, value in found.state_dict().items() if torch.equal(value, exact[name])}
    matrices = {name for name, value in exact.items() if value.ndim > 1}
    routers = {name for name in matrices if name.endswith("gate.weight")}
    assert bool(routers) == (family in OWN_EXPERTS)
    assert kept == {
        name for name in exact
        if exact[name].ndim == 1 or not name.startswith(known.blocks)
        or (name in routers and not known.linear_router)
    }  # fmt: skip


def test_only_deepseeks_router_stays_as_it_is():
    rounded = {name for name in OWN_EXPERTS if family_of(ARCHITECTURES[name]).linear_router}
    assert rounded == OWN_EXPERTS - {"deepseek"}


def test_new_routers_are_not_rounded_and_new_experts_are_copies_of_what_is(tmp_path):
    saved("bert", tmp_path)
    given = {"backbone.source": str(tmp_path), "backbone.weights": "pretrained"}
    given |= {"backbone.tokenizer": "builtin", "embedding.query_tokens": 32}
    options = [
        config("bert", "moe", **given, **{"backbone.quantization": q}) for q in ("none", "nf4")
    ]
    exact, found = (build_embedder(option).state_dict() for option in options)
    routers = [name for name in exact if "router" in name]
    experts = [name for name in exact if "experts" in name and exact[name].ndim == 2]
    assert routers
    assert experts
    assert all(torch.equal(found[name], exact[name]) for name in routers)
    assert all(torch.equal(found[name], rounding()(exact[name])) for name in experts)


@pytest.mark.parametrize("family", ["bert", "olmoe", "deepseek"])
def test_a_saved_model_holds_rounded_weights_and_is_not_rounded_again(family, tmp_path):
    saved(family, tmp_path / "exact")
    given = {"backbone.source": str(tmp_path / "exact"), "backbone.weights": "pretrained"}
    embedder = build_embedder(config(family, **given, **{"backbone.quantization": "nf4"}))
    embedder.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.config.backbone.quantization == "none"
    assert same(embedder.model, again.model)
    twice = build_embedder(
        again.config.model_copy(
            update={"backbone": again.config.backbone.model_copy(update={"quantization": "nf4"})}
        )
    )
    assert not same(embedder.model, twice.model)


def test_a_model_that_was_saved_before_the_key_existed_loads(tmp_path):
    embedder = build_embedder(config("bert"))
    embedder.save(tmp_path / "model")
    file = tmp_path / "model" / "embedexp.json"
    content = json.loads(file.read_text())
    del content["model"]["backbone"]["quantization"]
    file.write_text(json.dumps(content))
    assert same(load(tmp_path / "model").model, embedder.model)
    assert same(loaded("bert", tmp_path / "model"), embedder.model)


def test_without_the_package_it_is_told_before_anything_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes.functional", None)
    with pytest.raises(UserError) as error:
        loaded("bert", "/nowhere", quantization="nf4")
    text = str(error.value)
    assert len(text.splitlines()) <= 3
    assert "pip install 'embedexp[quantization]'" in text
