from __future__ import annotations

import pytest
import torch

from embedexp.config.schema.mask_schedule import (
    Accelerating,
    Bidirectional,
    Causal,
    Decelerating,
    Linear,
)
from embedexp.mask_schedule import FORMS, SCHEDULES, build, soft_mask

OPTIONS = [
    Bidirectional(name="bidirectional"),
    Causal(name="causal"),
    *(Linear(name="linear", form=form) for form in FORMS),
    Accelerating(name="accelerating", form="column"),
    Decelerating(name="decelerating", form="printed"),
]
SOFT = {"linear": Linear, "accelerating": Accelerating, "decelerating": Decelerating}


@pytest.fixture(params=OPTIONS, ids=lambda option: f"{option.name}-{getattr(option, 'form', '')}")
def schedule(request):
    return build(request.param)


def test_alpha_over_training():
    linear = build(OPTIONS[2])
    assert [linear.progress(step, 4) for step in range(6)] == [0, 0.25, 0.5, 0.75, 1, 1]
    assert linear.progress(0, 0) == 0
    assert {build(OPTIONS[0]).progress(step, 4) for step in range(5)} == {1.0}
    assert {build(OPTIONS[1]).progress(step, 4) for step in range(5)} == {0.0}


def test_final_is_where_training_ends(schedule):
    assert schedule.final == schedule.progress(10, 10)


def test_bias_is_the_log_of_the_weights_and_closes_without_nan(schedule):
    for alpha in (0.0, 0.3, 1.0):
        weights, bias = schedule.weights(6, alpha), schedule.bias(6, alpha)
        assert not bias.isnan().any()
        torch.testing.assert_close(bias.exp(), weights)
        assert torch.equal(bias.exp() == 0, weights == 0)


def test_each_length_has_its_own_weights(schedule):
    lengths = torch.tensor([6, 1, 4])
    together = schedule.weights(lengths, 0.4)
    assert together.shape == (3, 6, 6)
    for weights, length in zip(together, lengths.tolist(), strict=True):
        assert torch.equal(weights[:length, :length], schedule.weights(length, 0.4))


def test_plain_masks_are_named_only_where_the_weights_are_plain(schedule):
    plain = {"causal": torch.ones(6, 6).tril(), "bidirectional": torch.ones(6, 6)}
    for alpha in (0.0, 0.3, 1.0):
        mask, weights = schedule.mask(alpha), schedule.weights(6, alpha)
        if isinstance(mask, str):
            assert torch.equal(weights, plain[mask])
        else:
            assert torch.equal(mask(torch.tensor([6]))[0], schedule.bias(6, alpha))
            assert not any(torch.equal(weights, other) for other in plain.values())


@pytest.mark.parametrize(
    ("name", "alphas"),
    [
        ("linear", [0, 0.25, 0.5, 0.75, 1]),
        ("accelerating", [0, 0.0625, 0.25, 0.5625, 1]),
        ("decelerating", [0, 0.4375, 0.75, 0.9375, 1]),
    ],
)
def test_alpha_by_hand(name, alphas):
    schedule = build(SOFT[name](name=name, form="column"))
    assert [schedule.progress(step, 4) for step in range(5)] == alphas
    assert schedule.progress(9, 4) == 1  # longer than planned


def test_every_soft_schedule_is_known_to_the_public_function():
    assert set(SCHEDULES) == set(SOFT)


@pytest.mark.parametrize("name", SOFT)
def test_the_option_and_the_public_function_agree(name):
    for form in FORMS:
        schedule = build(SOFT[name](name=name, form=form))
        expected = soft_mask(7, 0.6, schedule=name, form=form)
        assert torch.equal(schedule.weights(7, schedule.progress(3, 5)), expected)
