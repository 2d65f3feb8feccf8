"""Experts become their mean, and the model dense."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import embedexp
from embedexp.config.errors import UserError
from embedexp.config.schema.merge import ExpertAverage
from embedexp.merge import merge

from .conftest import build, weights

TEXTS = ["a small furry animal", "money in a bank", "x"]


def shared_name(name):
    return re.sub(r"\.experts\.\d+\.", ".experts.", name)


def averaged(path, output):
    merge(ExpertAverage(name="expert_average", inputs=[path]), output)
    return embedexp.load(output)


def test_task_experts_become_the_dense_model_with_their_mean_weights(mote, tmp_path):
    routed, dense = embedexp.load(mote), averaged(mote, tmp_path / "m")
    assert dense.config.routing.name == "dense"
    assert dense.config.embedding == routed.config.embedding
    state = routed.model.state_dict()
    experts: dict[str, list[torch.Tensor]] = {}
    for name, value in state.items():
        experts.setdefault(shared_name(name), []).append(value.double())
    assert {len(values) for values in experts.values()} == {1, 4}
    mean = {name: torch.stack(experts[shared_name(name)]).mean(0).float() for name in state}
    routed.model.load_state_dict(mean)  # each of its experts is now the mean
    np.testing.assert_allclose(
        dense.encode(TEXTS, task="search_query"),
        routed.encode(TEXTS, task="search_query"),
        atol=2e-6,
    )
    assert (tmp_path / "m" / "config.json").is_file()  # a plain folder


def test_equal_experts_stay_what_they_are(tmp_path):
    """Just upcycled, a model computes what its dense origin does; so must the average."""
    for routing in ("mote", "moe"):
        path = build(tmp_path / routing, f"routing={routing}")
        dense = averaged(path, tmp_path / f"dense-{routing}")
        wanted = embedexp.load(path).encode(TEXTS, task="clustering")
        np.testing.assert_allclose(dense.encode(TEXTS, task="clustering"), wanted, atol=1e-6)


@pytest.mark.parametrize("family", ["tiny_llama"])
def test_other_families_become_dense_too(family, tmp_path):
    path = build_of(family, tmp_path / "routed", "routing=mote")
    origin = build_of(family, tmp_path / "origin")
    averaged(path, tmp_path / "m")
    found, wanted = weights(tmp_path / "m"), weights(origin)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def build_of(family, folder, *more):
    config = embedexp.compose([f"backbone={family}", "mask_schedule=causal", *more])
    embedexp.build_embedder(config).save(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "is dense"),
        (["routing=moe", "routing.renormalize=none"], "do not sum to 1"),
        (["routing=moe", "routing.biases=shared_output"], "outside of its experts"),
    ],
    ids=["dense", "renormalize", "biases"],
)
def test_what_has_no_sensible_mean_is_refused(options, reason, tmp_path):
    path = build(tmp_path / "routed", *options)
    with pytest.raises(UserError, match=reason) as caught:
        averaged(path, tmp_path / "m")
    assert caught.value.hint
