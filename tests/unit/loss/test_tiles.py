"""Strips of rows give what the definition gives, value and gradients, in memory linear in n."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from embedexp.loss import info_nce, tiles
from embedexp.loss.infonce import DIRECTIONS, TERMS, InfoNCELoss

from .references import batch_of, every_subset, loop_info_nce

BOTH, FORWARD = DIRECTIONS, DIRECTIONS[:1]


def example(seed: int, count: int = 7, width: int = 5):
    """Vectors and colliding two-column keys of `count` examples with 0 to 2 hard negatives each."""
    generator = torch.Generator().manual_seed(seed)

    def draw(top: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, top, shape, generator=generator)

    sizes = [int(draw(3, 1)) for _ in range(count)]
    group = draw(5, count) - 1  # -1 agrees with nothing

    def keys(number: int, groups: torch.Tensor) -> list[tuple[int, ...]]:
        texts = draw(14, number)
        return [(int(t), int(g)) for t, g in zip(texts, groups, strict=True)]

    all_keys = (
        keys(count, group),
        keys(count, group),
        [keys(size, draw(9, size) - 5) for size in sizes],
    )
    vectors = torch.randn(2 * count + sum(sizes), width, generator=generator)
    vectors *= 3 * torch.rand(len(vectors), 1, generator=generator) + 0.5
    return vectors.double(), sizes, all_keys


def parts(vectors: torch.Tensor, sizes: list[int]):
    count = len(sizes)
    return vectors[:count], vectors[count : 2 * count], list(vectors[2 * count :].split(sizes))


def loop(vectors, sizes, keys, temperature, denominator, margin, directions):
    return loop_info_nce(*parts(vectors, sizes), keys, temperature, denominator, margin, directions)


def ours(vectors, sizes, keys, temperature, denominator, margin, directions):
    """The public function, with padded hard negatives."""
    queries, positives, ragged = parts(vectors, sizes)
    width = max(sizes)
    hard = [torch.cat([x, x.new_zeros(width - len(x), x.shape[1])]) for x in ragged]
    ids = [[*row, *[(-1, -1)] * (width - len(row))] for row in keys[2]]
    return info_nce(
        queries,
        positives,
        torch.stack(hard),
        temperature=temperature,
        denominator=denominator,
        false_negative_margin=margin,
        query_ids=torch.tensor(keys[0]),
        positive_ids=torch.tensor(keys[1]),
        hard_negative_ids=torch.tensor(ids),
        mask=torch.arange(width) < torch.tensor(sizes)[:, None],
        shared_ids=True,
        directions=directions,
    )


def with_gradients(function, vectors, temperature, *args):
    vectors = vectors.clone().requires_grad_()
    temperature = temperature.clone().requires_grad_()
    value = function(vectors, args[0], args[1], temperature, *args[2:])
    # Halved, as a sum of losses would.
    return [value, *torch.autograd.grad(0.5 * value, [vectors, temperature], allow_unused=True)]


@pytest.mark.parametrize("margin", [None, 0.1])
@pytest.mark.parametrize("directions", [FORWARD, BOTH], ids="+".join)
def test_value_and_gradients_are_those_of_the_definition(directions, margin, monkeypatch):
    monkeypatch.setattr(tiles, "ELEMENTS", {"cpu": 1})
    for number, denominator in enumerate(every_subset(TERMS)):
        if directions == BOTH and all("hard" in term for term in denominator):
            continue
        vectors, sizes, keys = example(number)
        temperature = torch.tensor([0.25], dtype=torch.float64)
        arguments = (sizes, keys, denominator, margin, directions)
        expected = with_gradients(loop, vectors, temperature, *arguments)
        for dtype, limit, rows in (
            (torch.float64, 1e-12, 2),  # strips of two rows, the last of one
            (torch.float64, 1e-12, 16),
            (torch.float32, 1e-6, 2),
        ):
            monkeypatch.setattr(tiles, "FEWEST_ROWS", rows)
            found = with_gradients(ours, vectors.to(dtype), temperature.to(dtype), *arguments)
            for a, b in zip(found, expected, strict=True):
                b = torch.zeros_like(a) if b is None else b.detach()
                error = (a.detach().double() - b).abs().max() / max(1.0, float(b.abs().max()))
                assert error < limit, (denominator, dtype, rows)


@pytest.mark.parametrize("directions", [FORWARD, BOTH], ids="+".join)
def test_the_loss_of_a_batch_is_the_same_and_learns_its_temperature(directions):
    vectors, sizes, keys = example(3)
    queries, positives, negatives = keys
    batch = batch_of(queries, positives, [list(row) for row in negatives])
    module = InfoNCELoss(0.25, TERMS, 0.1, directions, min_temperature=0.01)
    leaf = vectors.clone().requires_grad_()
    output = module(leaf, batch)
    output.total.backward()
    temperature = torch.tensor([0.25], dtype=torch.float64)
    arguments = (sizes, keys, list(TERMS), 0.1, directions)
    value, gradient, slope = with_gradients(loop, vectors, temperature, *arguments)
    assert output.total.item() == pytest.approx(value.item(), rel=1e-7)
    torch.testing.assert_close(leaf.grad, 2 * gradient, rtol=1e-6, atol=1e-9)
    # The parameter is the logarithm of the scale 1/t, so that its slope is -t times that of t.
    assert module.log_scale.grad.item() == pytest.approx(-0.25 * 2 * slope.item(), rel=1e-6)
    assert output.terms["temperature"].item() == pytest.approx(0.25)


def test_hard_negatives_in_another_order_are_told_apart_by_their_slots():
    vectors, _, keys = example(3)
    batch = batch_of(keys[0], keys[1], [list(row) for row in keys[2]])
    order = torch.randperm(len(vectors) - 14, generator=torch.Generator().manual_seed(0))
    moved = torch.cat([vectors[:14], vectors[14:][order]])
    slots = batch.negative_slots.clone()
    slots[slots >= 0] = order.argsort()[slots[slots >= 0]]
    shuffled = type(batch)(**{**vars(batch), "negative_slots": slots})
    module = InfoNCELoss(0.25, TERMS)
    assert module(moved, shuffled).total.item() == pytest.approx(
        module(vectors, batch).total.item()
    )


def test_the_learned_temperature_stops_at_its_floor_and_comes_back():
    module = InfoNCELoss(0.02, ["other_positives"], min_temperature=0.01)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with torch.no_grad():
        module.log_scale.fill_(9.0)
    assert module.current_temperature().item() == pytest.approx(0.01)
    vectors = torch.randn(14, 5, generator=torch.Generator().manual_seed(0))
    batch = batch_of([(i, -1) for i in range(7)], [(i + 7, -1) for i in range(7)])
    module(vectors, batch).total.backward()
    assert module.log_scale.grad.item() > 0  # pairs that don't match want a larger temperature
    optimizer.step()
    assert module.current_temperature().item() > 0.0101


def test_a_fixed_temperature_is_no_parameter_and_a_learned_one_is_a_vector():
    assert not list(InfoNCELoss(0.1, ["other_positives"]).parameters())
    (parameter,) = InfoNCELoss(0.1, ["other_positives"], min_temperature=0.01).parameters()
    assert parameter.shape == (1,)  # no weight decay for vectors, and FSDP2 shards no scalars
    assert parameter.exp().item() == pytest.approx(10)


@pytest.mark.parametrize("grad", [True, False])
def test_nothing_of_the_size_of_a_strip_outlives_the_forward_pass(grad):
    q, p = torch.randn(64, 8, requires_grad=grad), torch.randn(64, 8, requires_grad=grad)
    value = info_nce(q, p, temperature=0.1, denominator=["other_positives"])
    assert value.requires_grad == grad
    if grad:
        assert {tuple(t.shape) for t in value.grad_fn.saved_tensors} == {(), (64, 8)}
        first = torch.autograd.grad(value, [q, p], retain_graph=True)
        again = torch.autograd.grad(value, [q, p])  # gradients are kept as they are
        torch.testing.assert_close(first, again)


def test_no_gradient_is_computed_where_none_is_wanted(monkeypatch):
    seen = []
    finished = tiles._Strips.finished
    monkeypatch.setattr(tiles._Strips, "finished", lambda s: seen.append(1) or finished(s))
    q, p = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)
    with torch.no_grad():
        info_nce(q, p, temperature=0.1, denominator=["other_positives"])
    assert not seen
    info_nce(q, p, temperature=0.1, denominator=["other_positives"]).backward()
    assert seen
    assert q.grad is not None
    assert p.grad is None


def test_strips_stay_within_their_size_however_large_the_batch(monkeypatch):
    monkeypatch.setattr(tiles, "ELEMENTS", {"cpu": 4096})
    largest = []
    scores = tiles._Strips._scores

    def spy(self, *args):
        tile = scores(self, *args)
        largest.append(tile.numel())
        return tile

    monkeypatch.setattr(tiles._Strips, "_scores", spy)
    q, p = torch.randn(100, 4), torch.randn(100, 4)
    info_nce(q, p, temperature=0.1, denominator=["other_positives", "other_queries"])
    assert max(largest) <= 4096 / 2
    assert sum(largest) == 2 * 100 * 100


def test_the_other_direction_costs_one_product_more():
    def products(directions):
        q, p = (torch.randn(64, 16, requires_grad=True) for _ in range(2))
        with FlopCounterMode(display=False) as counter:
            info_nce(
                q, p, temperature=0.1, denominator=["other_positives"], directions=directions
            ).backward()
        return counter.get_total_flops() / (2 * 64 * 64 * 16)

    assert products(BOTH) == pytest.approx(products(FORWARD) + 1)
