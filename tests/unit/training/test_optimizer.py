"""The learning rate follows its schedule, and only matrices decay."""

from __future__ import annotations

from math import cos, pi

import pytest
import torch

from embedexp.config.schema.optimizer import AdamW
from embedexp.training.optimizer import build, learning_rate_factor, parameter_groups


def option(**changes) -> AdamW:
    return AdamW(
        **{
            "name": "adamw",
            "learning_rate": 1e-3,
            "weight_decay": 0.1,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "schedule": "linear",
            "warmup_steps": 10,
            "max_grad_norm": 1.0,
            **changes,
        }
    )


def test_warmup_rises_to_the_peak_and_its_first_step_moves():
    factors = [learning_rate_factor(option(), step, 100) for step in range(11)]
    assert factors == pytest.approx([(i + 1) / 10 for i in range(10)] + [1.0])


@pytest.mark.parametrize(
    ("schedule", "step", "factor"),
    [
        ("linear", 55, 0.5),
        ("linear", 100, 0.0),
        ("cosine", 55, 0.5),
        ("cosine", 32, 0.5 * (1 + cos(pi * 22 / 90))),
        ("constant", 99, 1.0),
        ("inverse_sqrt", 40, 0.5),
        ("inverse_sqrt", 10, 1.0),
    ],
)
def test_schedules_after_warmup(schedule, step, factor):
    assert learning_rate_factor(option(schedule=schedule), step, 100) == pytest.approx(factor)


def test_no_warmup_starts_at_the_peak():
    assert learning_rate_factor(option(warmup_steps=0), 0, 100) == 1.0


def test_vectors_do_not_decay():
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    matrices, vectors = parameter_groups(module, 0.1)
    assert (matrices["weight_decay"], len(matrices["params"])) == (0.1, 1)
    assert (vectors["weight_decay"], len(vectors["params"])) == (0.0, 3)


def test_steps_equal_torch_by_hand():
    torch.manual_seed(0)
    module = torch.nn.Linear(3, 2)
    weight = module.weight.detach().clone()
    optimizer, schedule = build(option(), module, 100)
    module(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    schedule.step()
    # The first Adam step moves each weight by the learning rate against its gradient's sign.
    expected = weight * (1 - 1e-4 * 0.1) - 1e-4
    torch.testing.assert_close(module.weight.detach(), expected, rtol=0, atol=1e-7)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(2e-4)
