"""Laid-out weights give the same vectors, and leave the model as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from embedexp.embedding.prepacking import WORTHWHILE, prepacked

from .conftest import build

ROWS = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))


def layers(bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 48, bias=bias), nn.GELU(), nn.Linear(48, 16, bias=bias))


@pytest.mark.parametrize("bias", [True, False])
def test_products_are_those_of_the_plain_layers(bias):
    model = layers(bias)
    exact = model.double()(ROWS.double())
    model.float()
    with torch.inference_mode(), prepacked(model, WORTHWHILE):
        names = {event.key for event in profiled(lambda: model(ROWS))}
        found = model(ROWS)
    assert "mkldnn::_linear_pointwise" in names
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=1e-6)


def profiled(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return profile.key_averages()


def test_layers_are_plain_again_after_an_error_too():
    model = layers()
    with pytest.raises(ValueError, match="stop"), prepacked(model, WORTHWHILE):
        raise ValueError("stop")
    assert all("forward" not in layer.__dict__ for layer in model)
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.zero_()
    with torch.inference_mode(), prepacked(model, WORTHWHILE):
        torch.testing.assert_close(model(ROWS), model[2].bias.expand(3, 7, 16))


@pytest.mark.parametrize("why", ["few tokens", "another precision", "a layer of another kind"])
def test_what_would_not_gain_stays_as_it_is(why):
    class Other(nn.Linear):
        pass

    model = nn.Sequential(Other(32, 48)) if why.startswith("a layer") else layers()
    if why == "another precision":
        model.bfloat16()
    with prepacked(model, WORTHWHILE - 1 if why == "few tokens" else WORTHWHILE):
        assert all("forward" not in layer.__dict__ for layer in model)


@pytest.mark.parametrize("routing", ["dense", "moe", "mote"])
def test_vectors_of_many_texts_are_those_of_few(routing, texts):
    embedder = build("tiny", routing)
    many = [f"{text} {i}" for i in range(1 + WORTHWHILE // 4 // len(texts)) for text in texts]
    together = embedder.encode(many)
    alone = np.concatenate([embedder.encode(many[i : i + 8]) for i in range(0, 64, 8)])
    np.testing.assert_allclose(together[:64], alone, atol=1e-6)
