"""CoSENT orders scored pairs."""

from __future__ import annotations

import math

import pytest
import torch

from embedexp.loss import cosent


def by_hand(scores: list[float], labels: list[float], scale: float) -> float:
    pairs = range(len(scores))
    return math.log1p(
        sum(
            math.exp(scale * (scores[i] - scores[j]))
            for i in pairs
            for j in pairs
            if labels[i] < labels[j]
        )
    )


@pytest.mark.parametrize(
    ("scores", "labels", "golden"),
    [
        ([0.9, 0.1, 0.5, 0.7], [1, 0, 0.5, 0.5], 0.01881470896755311),
        ([0.9, 0.1, 0.5, 0.7], [0, 1, 0.5, 0.5], 16.018814708967554),
        (
            [0.8080929987688374, 0.8300167144430659, 0.8358430082224386, 0.7978410865452531],
            [1.0, 0.2, 0.6, 0.6],
            2.06687019163879,
        ),
    ],
)
def test_golden_values(scores, labels, golden):
    value = cosent(torch.tensor(scores, dtype=torch.float64), torch.tensor(labels))
    assert value.item() == pytest.approx(golden, rel=1e-9)


def test_equals_the_double_sum_with_gradients():
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(40, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 5, (40,), generator=generator).double()
    value = cosent(scores, labels, 7.0)
    assert value.item() == pytest.approx(by_hand(scores.tolist(), labels.tolist(), 7.0))
    differences = 7.0 * (scores[:, None] - scores[None, :])
    lower = labels[:, None] < labels[None, :]
    plain = torch.nn.functional.softplus(differences[lower].logsumexp(0))
    (ours,) = torch.autograd.grad(value, scores)
    (theirs,) = torch.autograd.grad(plain, scores)
    torch.testing.assert_close(ours, theirs)


def test_equal_labels_cost_nothing_and_still_have_a_gradient():
    scores = torch.rand(5, requires_grad=True)
    value = cosent(scores, torch.ones(5))
    value.backward()
    assert value.item() == 0
    assert scores.grad.tolist() == [0] * 5


def test_order_of_pairs_does_not_matter():
    scores, labels = torch.rand(30, dtype=torch.float64), torch.randint(0, 4, (30,))
    order = torch.randperm(30)
    assert cosent(scores, labels).item() == pytest.approx(
        cosent(scores[order], labels[order]).item()
    )
