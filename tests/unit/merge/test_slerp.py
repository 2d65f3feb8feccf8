"""Spherical interpolation."""

from __future__ import annotations

import math

import pytest
import torch

from embedexp.config.schema.merge import Slerp
from embedexp.merge import merge
from embedexp.merge.slerp import coefficients

from .conftest import weights


def reference(a, b, t):
    """On whole flattened tensors in float64; the straight line where |cosine| > 0.9995."""
    a, b = a.double(), b.double()
    norms = a.norm() * b.norm()
    cosine = float((a * b).sum() / norms) if norms else 1.0
    if abs(cosine) > 0.9995:
        return (1 - t) * a + t * b
    angle = math.acos(cosine)
    return (math.sin((1 - t) * angle) * a + math.sin(t * angle) * b) / math.sin(angle)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
def test_models_are_interpolated_tensor_by_tensor(dense, tmp_path, t, monkeypatch):
    monkeypatch.setattr("embedexp.merge.tensors.PIECE", 20_000)  # tensors come in several pieces
    merge(Slerp(name="slerp", inputs=dense[:2], t=t), tmp_path / "m")
    a, b, found = (weights(path) for path in (*dense[:2], tmp_path / "m"))
    curved = 0
    for name, value in found.items():
        torch.testing.assert_close(
            value.double(), reference(a[name], b[name], t), rtol=0, atol=2e-7
        )
        straight = (1 - t) * a[name].double() + t * b[name].double()
        curved += bool((value.double() - straight).abs().max() > 1e-4)
    assert curved > 5 or t in (0.0, 1.0)


def test_a_quarter_circle():
    pieces = [(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]))]
    first, second = coefficients(iter(pieces), 0.5) or (0, 0)
    assert (first, second) == pytest.approx((math.sqrt(0.5), math.sqrt(0.5)))


def test_copies_and_zeros_are_on_a_straight_line(dense, tmp_path):
    merge(Slerp(name="slerp", inputs=[dense[0]] * 2, t=0.3), tmp_path / "m")
    found, wanted = weights(tmp_path / "m"), weights(dense[0])
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert coefficients(iter([(torch.zeros(3), torch.ones(3))]), 0.3) is None


def test_equals_mergekit():
    pytest.importorskip("mergekit")
    from mergekit.merge_methods.slerp import slerp

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(5, 7, generator=generator) for _ in range(2))
    theirs = slerp(torch.tensor([0.3]), a[None], b[None])[0]
    first, second = coefficients(iter([(a, b)]), 0.3) or (0, 0)
    torch.testing.assert_close(first * a + second * b, theirs, rtol=0, atol=1e-6)
