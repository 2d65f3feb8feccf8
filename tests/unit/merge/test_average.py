"""Averages of weights are what they say."""

from __future__ import annotations

import pytest
import torch

from embedexp.merge import average


def states(n: int, dtype=torch.float32) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        {"w": torch.randn(7, 5, generator=generator).to(dtype), "ids": torch.arange(3)}
        for _ in range(n)
    ]


def test_copies_average_to_themselves():
    (state,) = states(1)
    merged = average([state] * 4)
    assert torch.equal(merged["w"], state["w"])
    assert torch.equal(merged["ids"], state["ids"])


@pytest.mark.parametrize("weights", [None, [3.0, 1.0, 0.5]])
def test_equals_a_float64_loop(weights):
    models = states(3)
    shares = weights or [1.0] * 3
    wanted = sum(s * m["w"].double() for s, m in zip(shares, models, strict=True)) / sum(shares)
    torch.testing.assert_close(average(models, weights)["w"].double(), wanted, rtol=0, atol=1e-6)


def test_half_precision_is_accumulated_in_float32():
    models = states(64, torch.bfloat16)
    wanted = torch.stack([m["w"].double() for m in models]).mean(0)
    merged = average(models)["w"]
    assert merged.dtype == torch.bfloat16
    torch.testing.assert_close(merged.double(), wanted, rtol=2**-8, atol=1e-4)


def test_inputs_stay_as_they_are():
    models = states(2)
    kept = models[0]["w"].clone()
    average(models)["w"].zero_()
    assert torch.equal(models[0]["w"], kept)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(w=torch.zeros(7, 6)), "w has shape"),
        (lambda s: s.update(extra=torch.zeros(1)), "extra"),
        (lambda s: s.update(ids=torch.arange(3) + 1), "ids is not a weight"),
    ],
)
def test_models_that_do_not_fit_are_refused_by_their_first_difference(change, message):
    a, b = states(2)
    change(b)
    with pytest.raises(ValueError, match=message):
        average([a, b])


def test_weights_must_fit():
    with pytest.raises(ValueError, match="2 weights"):
        average(states(3), [1.0, 2.0])
