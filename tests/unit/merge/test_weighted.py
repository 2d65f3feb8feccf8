"""The weighted average."""

from __future__ import annotations

import torch

from embedexp.config.schema.merge import Weighted
from embedexp.merge import merge

from .conftest import weights


def test_equals_a_float64_loop_and_only_ratios_count(dense, tmp_path):
    shares = [3.0, 1.0, 0.5]
    for factor, name in ((1.0, "a"), (8.0, "b")):
        option = Weighted(name="weighted", inputs=dense[:3], weights=[factor * s for s in shares])
        record = merge(option, tmp_path / name)
    assert [each.weight for each in record.inputs] == [3 / 4.5, 1 / 4.5, 0.5 / 4.5]
    states = [weights(path) for path in dense[:3]]
    a, b = weights(tmp_path / "a"), weights(tmp_path / "b")
    for key, value in a.items():
        wanted = sum(s * m[key].double() for s, m in zip(shares, states, strict=True)) / 4.5
        torch.testing.assert_close(value.double(), wanted, rtol=0, atol=1e-7)
        assert torch.equal(value, b[key])


def test_a_model_with_all_the_weight_comes_out_unchanged(dense, tmp_path):
    merge(Weighted(name="weighted", inputs=dense[:2], weights=[0.0, 2.0]), tmp_path / "m")
    found, wanted = weights(tmp_path / "m"), weights(dense[1])
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
