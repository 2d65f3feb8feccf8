"""AnglE ranks scored pairs as sentence-transformers does."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import AnglELoss, CoSENTLoss
from sentence_transformers.util import pairwise_angle_sim

from embedexp.config import compose
from embedexp.loss import angle_similarity, build, cosent

from .references import batch_of


def pairs(width: int, count: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(width)
    first, second = (
        torch.randn(count, width, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    return first, second


@pytest.mark.parametrize("width", [8, 7])
def test_the_similarity_is_that_of_complex_numbers(width):
    first, second = pairs(width)
    found = angle_similarity(first, second)
    torch.testing.assert_close(found, pairwise_angle_sim(first, second))
    if width == 8:  # real plus imaginary part of the sum of u times the conjugate of v
        u, v = (
            torch.complex(x[:, :4], x[:, 4:]) / x.norm(dim=1, keepdim=True) for x in (first, second)
        )
        product = (u * v.conj()).sum(1)
        torch.testing.assert_close(found, (product.real + product.imag).abs())


@pytest.mark.parametrize(("name", "theirs"), [("angle", AnglELoss), ("cosent", CoSENTLoss)])
def test_value_and_gradient_are_those_of_sentence_transformers(name, theirs):
    first, second = (x.float() for x in pairs(8))
    scores = [0.1, 0.5, 0.5, 0.9, 0.0, 1.0, 0.3, 0.3, 0.7]
    keys = [(i, -1) for i in range(9)]
    batch = batch_of(keys, keys, tasks=["sts"] * 9, scores=scores)
    vectors = torch.cat([first, second]).requires_grad_()
    output = build(compose([f"loss={name}"]).loss)(vectors, batch)
    output.total.backward()
    a, b = first.clone().requires_grad_(), second.clone().requires_grad_()
    expected = theirs(torch.nn.Identity()).compute_loss_from_embeddings(
        [a, b], torch.tensor(scores)
    )
    expected.backward()
    assert output.total.item() == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(vectors.grad, torch.cat([a.grad, b.grad]), rtol=1e-5, atol=1e-6)
    assert set(output.terms) == {name}


def test_the_number_of_pairs_costs_no_square():
    count = 200_000  # its square in bytes would be 40 GB
    first, second = torch.randn(count, 4), torch.randn(count, 4)
    value = cosent(angle_similarity(first, second), torch.rand(count))
    assert torch.isfinite(value)
