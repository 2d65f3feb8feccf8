"""TIES: trim, elect, merge."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from embedexp.config.errors import UserError
from embedexp.config.schema.merge import Ties
from embedexp.merge import merge
from embedexp.merge.tensors import Tensors
from embedexp.merge.ties import Agreement, threshold

from .conftest import build, weights

BASE = torch.tensor([10.0, 20.0, 30.0, 40.0])
FIRST, SECOND = torch.tensor([4.0, -1.0, 3.0, 0.5]), torch.tensor([-2.0, -3.0, 1.0, 0.2])


def agreement(folder, states, shares, density, scaling=1.0, *, per_tensor=False):
    """What the formula makes of state dicts, the base first."""
    models = []
    for i, state in enumerate(states):
        save_file(state, folder / f"{i}.safetensors")
        models.append(Tensors.of([folder / f"{i}.safetensors"]))
    formula = Agreement(models, [], shares, density, scaling, per_tensor=per_tensor)
    return {
        name: formula(name, [lambda m=m, n=name: m.read(n) for m in models]) for name in states[0]
    }


@pytest.mark.parametrize(
    ("shares", "density", "scaling", "change"),
    [
        # Kept: [4, 0, 3, 0] and [-2, -3, 0, 0]; sums 2, -3, 3, 0.
        ([1.0, 1.0], 0.5, 1.0, [4.0, -3.0, 3.0, 0.0]),
        # Sums 4 - 6, -9, 3, 0: the first weight's sign is the other model's.
        ([1.0, 3.0], 0.5, 1.0, [-2.0, -3.0, 3.0, 0.0]),
        # All kept; where both agree, the weighted mean.
        ([1.0, 3.0], 1.0, 2.0, [-4.0, 2 * -2.5, 2 * 1.5, 2 * 0.275]),
    ],
)
def test_a_case_made_by_hand(tmp_path, shares, density, scaling, change):
    states = [{"w": BASE}, {"w": BASE + FIRST}, {"w": BASE + SECOND}]
    found = agreement(tmp_path, states, shares, density, scaling)["w"]
    torch.testing.assert_close(found, BASE + torch.tensor(change), rtol=0, atol=1e-5)


def test_changes_that_cancel_leave_the_base(tmp_path):
    states = [{"w": BASE}, {"w": BASE + 1}, {"w": BASE - 1}]
    assert torch.equal(agreement(tmp_path, states, [1.0, 1.0], 1.0)["w"], BASE)


def test_the_largest_changes_are_sought_in_the_whole_model_or_in_each_tensor(tmp_path):
    large, small = torch.tensor([9.0, 8.0]), torch.tensor([2.0, 1.0])
    states = [{"a": torch.zeros(2), "b": torch.zeros(2)}, {"a": large, "b": small}]
    whole = agreement(tmp_path, states, [1.0], 0.5)
    assert torch.equal(whole["a"], large)
    assert torch.equal(whole["b"], torch.zeros(2))
    each = agreement(tmp_path, states, [1.0], 0.5, per_tensor=True)
    assert torch.equal(each["a"], torch.tensor([9.0, 0.0]))
    assert torch.equal(each["b"], torch.tensor([2.0, 0.0]))


@pytest.mark.parametrize("density", [1e-9, 0.001, 0.2, 0.5, 0.9999, 1.0])
def test_the_threshold_is_that_of_sorting(density):
    generator = torch.Generator().manual_seed(1)
    pieces = [torch.randn(n, generator=generator) * 10.0**-n for n in (1, 7, 900, 3)]
    pieces.append(torch.zeros(50))
    ordered = torch.cat(pieces).abs().sort(descending=True).values
    wanted = ordered[max(1, int(density * len(ordered))) - 1]
    assert threshold(lambda: iter(pieces), density) == float(wanted)


def test_models_go_on_from_their_base(dense, tmp_path):
    *moved, base = dense
    option = {"inputs": moved[:2], "base": base, "weights": None, "trim": "model", "scaling": 1.0}
    record = merge(Ties(name="ties", density=0.2, **option), tmp_path / "m")
    assert [each.role for each in record.inputs] == ["base", "input", "input"]
    start, found = weights(base), weights(tmp_path / "m")
    states = [weights(path) for path in moved[:2]]
    changes = [torch.cat([(s[n] - start[n]).flatten() for n in start]) for s in states]
    kept = []
    for change in changes:
        limit = change.abs().sort(descending=True).values[int(0.2 * len(change)) - 1]
        kept.append(torch.where(change.abs() >= limit, change, 0).double())
    sign = (kept[0] + kept[1]).sign()
    joins = [(k.sign() == sign) & (sign != 0) for k in kept]
    total = sum(k * j for k, j in zip(kept, joins, strict=True))
    wanted = total / sum(j.double() for j in joins).clamp(min=1)
    ours = torch.cat([(found[n] - start[n]).flatten() for n in start]).double()
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-6)
    assert 0.15 < float((ours != 0).double().mean()) < 0.4


def test_a_base_of_another_shape_is_refused(dense, tmp_path):
    base = build(tmp_path / "base", "backbone.architecture.intermediate_size=64")
    option = {"weights": None, "trim": "model", "scaling": 1.0, "density": 0.2}
    with pytest.raises(UserError, match="intermediate_size"):
        merge(Ties(name="ties", inputs=dense[:1], base=base, **option), tmp_path / "m")


def test_equals_mergekit_where_that_trims_each_tensor(tmp_path):
    pytest.importorskip("mergekit")
    from mergekit.merge_methods.generalized_task_arithmetic import get_mask
    from mergekit.sparsify import magnitude

    generator = torch.Generator().manual_seed(0)
    base, *models = (torch.randn(8, 9, generator=generator) for _ in range(4))
    shares = torch.tensor([1.0, 2.0, 0.5])
    kept = torch.stack([magnitude(m - base, 0.25) for m in models]) * shares[:, None, None]
    mask = get_mask(kept, "sum")
    divisor = (shares[:, None, None] * mask).sum(0)
    theirs = base + (kept * mask).sum(0) / torch.where(divisor == 0, 1, divisor)
    states = [{"w": base}, *({"w": m} for m in models)]
    ours = agreement(tmp_path, states, shares.tolist(), 0.25, per_tensor=True)["w"]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
