"""Dense models become experts of one."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import embedexp
from embedexp.backbone.heads import FILE as HEAD
from embedexp.config.errors import UserError
from embedexp.config.schema.merge import ExpertsFromRuns
from embedexp.merge import merge

TEXTS = ["a small furry animal", "money in a bank", "x"]


def branched(experts, output, placement="every"):
    option = ExpertsFromRuns(name="experts_from_runs", experts=experts, placement=placement)
    return merge(option, output)


def test_experts_are_the_runs_blocks_and_the_rest_is_their_mean(dense, tmp_path):
    a, b, c, _ = dense
    experts = {"search_query": a, "search_document": b, "classification": c, "clustering": b}
    record = branched(experts, tmp_path / "m")
    assert [each.path for each in record.inputs] == [a, b, c]
    merged = embedexp.load(tmp_path / "m")
    assert merged.config.routing.name == "mote"
    assert merged.config.routing.experts == {
        "search_query": 0,
        "search_document": 1,
        "classification": 2,
        "clustering": 1,
    }
    models = [embedexp.load(path) for path in (a, b, c)]
    mean = {
        name: torch.stack([m.model.state_dict()[name].double() for m in models]).mean(0).float()
        for name in models[0].model.state_dict()
    }
    own = ("intermediate.", "output.dense.", "output.LayerNorm.")
    for task, model in zip(("search_query", "clustering", "classification"), models, strict=True):
        state = model.model.state_dict()
        shared = {
            name: value
            for name, value in mean.items()
            if ".attention.output.LayerNorm." not in name
            and (".attention." in name or not any(part in name for part in own))
        }
        model.model.load_state_dict(state | shared)  # what the expert's whole path should be
        np.testing.assert_allclose(
            merged.encode(TEXTS, task=task), model.encode(TEXTS, task=task), atol=2e-6
        )


def test_a_head_that_is_left_out_is_told(dense, tmp_path):
    with_head = tmp_path / "a"
    shutil.copytree(dense[0], with_head)
    save_file({"bias": torch.zeros(2)}, with_head / HEAD)
    experts = {"search_query": str(with_head), "search_document": dense[1]}
    record = branched(experts, tmp_path / "m")
    assert any("head was left out" in note for note in record.notes)
    assert not (tmp_path / "m" / HEAD).exists()
    plain = branched(experts | {"search_query": dense[2]}, tmp_path / "n")
    assert not any("head" in note for note in plain.notes)


def test_tasks_without_a_model_have_no_expert(dense, tmp_path):
    branched({"search_query": dense[0], "search_document": dense[1]}, tmp_path / "m")
    merged = embedexp.load(tmp_path / "m")
    with pytest.raises(UserError, match="no expert for clustering"):
        merged.encode(TEXTS, task="clustering")


def test_blocks_without_experts_are_averaged(dense, tmp_path):
    experts = {"search_query": dense[0], "search_document": dense[1]}
    branched(experts, tmp_path / "m", placement=[1])
    state = embedexp.load(tmp_path / "m").model.state_dict()
    a, b = (embedexp.load(path).model.state_dict() for path in dense[:2])
    name = "encoder.layer.0.output.dense.weight"
    torch.testing.assert_close(state[name], (a[name] + b[name]) / 2, rtol=0, atol=1e-7)
    assert any(".1." in name and ".experts.1." in name for name in state)


def test_routed_models_are_refused(moe, tmp_path):
    with pytest.raises(UserError, match="has routing=moe"):
        branched({"search_query": moe[0], "clustering": moe[1]}, tmp_path / "m")
