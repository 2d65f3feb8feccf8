"""Experts that are numbered differently are found before anything is averaged."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

import embedexp
from embedexp.config.schema.merge import Uniform
from embedexp.merge import merge
from embedexp.merge.experts import match
from embedexp.merge.tensors import Tensors

from .conftest import build, rewrite, weights

TEXTS = ["a small furry animal", "money in a bank", "x"]
GROUPS = {"0": [2, 0, 3, 1], "1": [1, 0, 3, 2]}
"""New numbers: expert e becomes the one that was at this place."""


def renumber(state):
    """Renumber the experts of each layer, and the router's rows along."""
    old = dict(state)
    for name in old:
        layer = name.split("layer.")[1].split(".")[0] if "layer." in name else ""
        if ".experts." in name:
            head, _, tail = name.partition(".experts.")
            number, _, rest = tail.partition(".")
            state[name] = old[f"{head}.experts.{GROUPS[layer][int(number)]}.{rest}"].clone()
        elif name.endswith("router.weight"):
            state[name] = old[name][GROUPS[layer]].clone()


def renumbered(path, folder):
    shutil.copytree(path, folder)
    rewrite(folder, renumber)
    return str(folder)


def orders(record):
    return [list(each.experts.values()) for each in record.inputs]


def test_a_renumbered_copy_merges_to_the_original(moe, tmp_path, monkeypatch):
    monkeypatch.setattr("embedexp.merge.tensors.PIECE", 1000)  # matched in several pieces
    copy = renumbered(moe[0], tmp_path / "copy")
    before, after = weights(moe[0]), weights(copy)
    assert all(not torch.equal(before[n], after[n]) for n in before if n.endswith("router.weight"))
    record = merge(Uniform(name="uniform", inputs=[moe[0], copy]), tmp_path / "m")
    inverse = [[order.index(i) for i in range(4)] for order in GROUPS.values()]
    assert orders(record) == [[], inverse]
    found, wanted = weights(tmp_path / "m"), weights(moe[0])
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_models_that_have_moved_are_matched_and_averaged(moe, tmp_path):
    a, b = moe
    merge(Uniform(name="uniform", inputs=[a, b]), tmp_path / "straight")
    turned = renumbered(b, tmp_path / "turned")
    matched = merge(Uniform(name="uniform", inputs=[a, turned]), tmp_path / "matched")
    assert orders(matched)[1] != []
    found, wanted = weights(tmp_path / "matched"), weights(tmp_path / "straight")
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    vectors = [embedexp.load(tmp_path / n).encode(TEXTS) for n in ("matched", "straight")]
    assert np.array_equal(*vectors)


NATIVE = {
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}


def native(folder, family, embedding="last_token"):
    """A model with experts of transformers' own."""
    sizes = NATIVE[family] | {"num_hidden_layers": 2, "num_key_value_heads": 2}
    keys = [f"+backbone.architecture.{key}={value}" for key, value in sizes.items()]
    return build(
        folder, "backbone=tiny_llama", *[f"+{key}" for key in keys],
        f"backbone.architecture.model_type={family}", f"embedding={embedding}", moved=0.02,
    )  # fmt: skip


def renumber_native(state):
    """Renumber transformers' own experts, whether each is a tensor or all of a layer are one."""
    old = dict(state)
    for name in old:
        order = GROUPS[name.split("layers.")[1].split(".")[0]] if "layers." in name else []
        if name.endswith("gate.weight") or ".experts." in name:
            head, _, tail = name.partition(".experts.")
            number, _, rest = tail.partition(".")
            if rest:
                state[name] = old[f"{head}.experts.{order[int(number)]}.{rest}"].clone()
            else:
                state[name] = old[name][order].clone()


@pytest.mark.parametrize("embedding", ["last_token", "moee"])
@pytest.mark.parametrize("family", NATIVE)
def test_experts_of_transformers_own_are_matched(family, embedding, tmp_path, monkeypatch):
    monkeypatch.setattr("embedexp.merge.tensors.PIECE", 1000)
    model = native(tmp_path / "a", family, embedding)
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    rewrite(copy, renumber_native)
    before, after = weights(model), weights(copy)
    assert all(not torch.equal(before[n], after[n]) for n in before if n.endswith("gate.weight"))
    record = merge(Uniform(name="uniform", inputs=[model, str(copy)]), tmp_path / "m")
    inverse = [[order.index(i) for i in range(4)] for order in GROUPS.values()]
    assert orders(record) == [[], inverse]
    found = weights(tmp_path / "m")
    assert all(torch.equal(found[name], before[name]) for name in before)


def test_experts_that_are_equal_keep_their_numbers(tmp_path):
    routing = ["routing=moe", "routing.num_experts=4", "routing.router_std=0"]
    build(tmp_path / "a", *routing)
    tensors = Tensors.of([tmp_path / "a" / "model.safetensors"])
    assert match(tensors, tensors) == {}


def test_task_experts_are_never_renumbered(mote, tmp_path):
    record = merge(Uniform(name="uniform", inputs=[mote, mote]), tmp_path / "m")
    assert orders(record) == [[], []]
