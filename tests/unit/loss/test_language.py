"""Cross-entropy in chunks: torch's own in float64, in a bounded memory."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from embedexp.loss import language
from embedexp.loss.language import token_cross_entropy


def inputs(count=37, width=8, size=50, dtype=torch.float32):
    """Features, matrix, bias and targets."""
    torch.manual_seed(0)
    features = torch.randn(count, width, dtype=torch.float64)
    matrix = torch.randn(size, width, dtype=torch.float64)
    bias = torch.randn(size, dtype=torch.float64)
    targets = torch.randint(0, size, (count,))
    return [x.to(dtype).requires_grad_() for x in (features, matrix, bias)], targets


@pytest.mark.parametrize("elements", [1, 50, 333, 10**6])
@pytest.mark.parametrize("biased", [True, False])
def test_value_and_gradients_are_those_of_all_scores_in_float64(elements, biased):
    (features, matrix, bias), targets = inputs()
    given = bias if biased else None
    result = token_cross_entropy(features, matrix, given, targets, elements=elements)
    (result.total * 0.25).backward()

    (wide, table, offset), _ = inputs(dtype=torch.float64)
    wide, table, offset = (x.detach().double().requires_grad_() for x in (features, matrix, bias))
    scores = wide @ table.T + (offset if biased else 0)
    expected = cross_entropy(scores, targets, reduction="sum")
    (expected * 0.25).backward()
    torch.testing.assert_close(result.total.double(), expected, atol=1e-4, rtol=1e-6)
    pairs = [(features, wide), (matrix, table)] + ([(bias, offset)] if biased else [])
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.grad.double(), theirs.grad, atol=1e-5, rtol=1e-5)
    assert int(result.correct) == int((scores.argmax(-1) == targets).sum())


def test_half_precision_features_are_summed_up_in_float32():
    (features, matrix, _), targets = inputs(count=300, width=64, size=1000)
    half = features.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = token_cross_entropy(half, matrix, None, targets)
    expected = cross_entropy(half.double() @ matrix.double().T, targets, reduction="sum")
    assert result.total.dtype == torch.float32
    torch.testing.assert_close(result.total.double(), expected, rtol=1e-6, atol=0)
    result.total.backward()
    assert half.grad.dtype == torch.bfloat16


def test_no_more_scores_exist_than_allowed(monkeypatch):
    largest, kept = [], torch.Tensor.log_softmax

    def spy(self, *args):
        largest.append(self.numel())
        return kept(self, *args)

    monkeypatch.setattr(torch.Tensor, "log_softmax", spy)
    (features, matrix, bias), targets = inputs()
    token_cross_entropy(features, matrix, bias, targets, elements=120)
    assert max(largest) <= 120
    assert sum(largest) == 37 * 50
    assert language.ELEMENTS * 4 == 64 * 2**20


def test_no_prediction_gives_zero_loss_and_zero_gradients():
    (features, matrix, bias), _ = inputs(count=0)
    result = token_cross_entropy(features, matrix, bias, torch.empty(0, dtype=torch.int64))
    result.total.backward()
    assert float(result.total.detach()) == 0
    assert float(matrix.grad.abs().sum()) == float(bias.grad.abs().sum()) == 0
