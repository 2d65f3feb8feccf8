"""Dropout on a CPU is torch's in all but the draws."""

import pytest
import torch
from scipy import stats
from torch import nn

from embedexp.backbone.attention import written_out
from embedexp.backbone.dropout import Dropout, dropout, quicken


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("lane", range(4))
def test_values_are_dropped_at_the_rate_in_each_lane_of_a_draw(rate, lane):
    torch.manual_seed(5)
    zero = dropout(torch.ones(400_000), rate).view(-1, 4)[:, lane] == 0
    assert stats.binomtest(int(zero.sum()), len(zero), rate).pvalue > 1e-4


def test_neighbours_are_dropped_independently():
    torch.manual_seed(6)
    kept = (dropout(torch.ones(400_000), 0.3) > 0).double()
    for apart in (1, 2, 3, 4, 128):
        correlation = torch.corrcoef(torch.stack([kept[:-apart], kept[apart:]]))[0, 1]
        assert abs(correlation) < 4 / len(kept) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4, 5), (0, 4)])
def test_what_is_kept_is_scaled_and_so_is_its_gradient(dtype, shape):
    torch.manual_seed(1)
    values = (torch.rand(shape) + 1).to(dtype).transpose(0, -1).requires_grad_()
    found = dropout(values, 0.25)
    assert found.dtype == dtype
    assert found.shape == values.shape
    kept = found != 0
    torch.testing.assert_close(found, torch.where(kept, values / 0.75, 0.0))
    found.backward(torch.ones_like(found))
    torch.testing.assert_close(values.grad, kept.to(dtype) / 0.75)


def test_gradients_are_those_of_finite_differences():
    values = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)

    def seeded(values):
        torch.manual_seed(3)
        return dropout(values, 0.4).square()

    assert torch.autograd.gradcheck(seeded, (values,))


def test_the_same_seed_drops_the_same_values():
    values = torch.ones(1001)
    torch.manual_seed(9)
    first, second = dropout(values, 0.1), dropout(values, 0.1)
    torch.manual_seed(9)
    assert torch.equal(first, dropout(values, 0.1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.001, 1.0])
def test_rates_that_16_bits_cannot_tell_are_torchs(rate):
    values = torch.ones(100_000)
    torch.manual_seed(2)
    found = dropout(values, rate)
    torch.manual_seed(2)
    assert torch.equal(found, nn.functional.dropout(values, rate))


def test_models_drop_while_they_train_only():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.2))).eval()
    quicken(model)
    layers = model[1], model[2][0]
    assert [(type(x), x.p, x.training) for x in layers] == [
        (Dropout, 0.5, False), (Dropout, 0.2, False)
    ]  # fmt: skip
    rows = torch.randn(8, 4)
    assert torch.equal(model(rows), model[0](rows))
    assert (model.train()(rows) == 0).any()


def test_attention_with_dropout_has_the_mean_of_attention_without():
    torch.manual_seed(4)
    query, key, value = torch.randn(3, 1, 2, 6, 8, dtype=torch.float64)
    without = nn.functional.scaled_dot_product_attention(query, key, value)
    many = [x.expand(4000, -1, -1, -1) for x in (query, key, value)]
    found = written_out(*many, None, 0.2, False, None)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - without[0]).abs() < 5 * error + 1e-9).all()
