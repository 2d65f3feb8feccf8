from __future__ import annotations

import pytest
import torch

from embedexp.routing import load_balancing_loss


def sines(phase):
    i, j = torch.arange(16.0, dtype=torch.float64)[:, None], torch.arange(4.0, dtype=torch.float64)
    return torch.sin(phase + 1.7 * i + 0.9 * j + 0.31 * i * j)


def routed(logits, top_k=2):
    probabilities = logits.softmax(-1)
    return probabilities, probabilities.topk(top_k, -1).indices


def test_golden_value_of_megablocks():
    layers = [routed(2 * sines(0.2)), routed(2 * sines(1.3))]
    counts = [assignment.flatten().bincount().tolist() for _, assignment in layers]
    assert counts == [[6, 9, 9, 8], [10, 8, 6, 8]]
    probabilities, assignments = zip(*layers, strict=True)
    value = load_balancing_loss(probabilities, assignments, normalization="switch")
    assert value.item() == pytest.approx(0.9986566256070823, abs=1e-12)
    printed = load_balancing_loss(probabilities, assignments, normalization="printed")
    assert printed.item() == pytest.approx(0.9986566256070823 / 4, abs=1e-12)


def on_experts(*experts):
    """All 32 tokens on the same experts, of 8, with certainty."""
    probabilities = torch.zeros(32, 8)
    probabilities[:, list(experts)] = 1 / len(experts)
    return probabilities, torch.tensor([list(experts)]).expand(32, -1)


def balanced(top_k=2):
    assignments = torch.arange(32 * top_k).view(32, top_k) % 8
    return torch.full((32, 8), 1 / 8), assignments


def loss(*layers):
    probabilities, assignments = zip(*layers, strict=True)
    return load_balancing_loss(probabilities, assignments, normalization="switch").item()


def test_one_at_balance_whatever_k_and_the_number_of_layers():
    assert loss(balanced()) == pytest.approx(1)
    assert loss(balanced(1), balanced(1), balanced(1)) == pytest.approx(1)


def test_collapse_costs_and_layers_do_not_cancel():
    assert loss(on_experts(0, 1)) == pytest.approx(4)
    assert loss(*(on_experts(2 * i, 2 * i + 1) for i in range(4))) == pytest.approx(4)


def test_the_gradient_moves_probability_away_from_the_crowded_expert():
    logits = torch.zeros(32, 4, requires_grad=True)
    crowded = torch.zeros(32, 1, dtype=torch.int64)
    load_balancing_loss([logits.softmax(-1)], [crowded], normalization="switch").backward()
    assert (logits.grad[:, 0] > 0).all()
    assert (logits.grad[:, 1:] < 0).all()
