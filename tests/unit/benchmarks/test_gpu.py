"""The checks on a GPU notice what is wrong, and what fails doesn't stop the rest."""

from __future__ import annotations

import json

import pytest
import torch


@pytest.fixture
def gpu(script):
    return script("gpu")


def bench_of(gpu, path=None):
    return gpu.Bench("cpu", gpu.sizes_for("cpu", tiny=True), 60, path)


def test_what_fails_is_counted_and_the_rest_goes_on(gpu, tmp_path, monkeypatch, capsys):
    def full(bench):
        raise torch.OutOfMemoryError("no room")

    def broken(bench):
        raise ValueError("cannot")

    def wrong(bench):
        bench.check("twins", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), 1e-3)

    def good(bench):
        bench.check("same", torch.ones(2), torch.ones(2), 1e-3)
        bench.row(gpu.Row("a", "b", [1.5]))

    parts = {"full": full, "broken": broken, "wrong": wrong, "good": good}
    monkeypatch.setattr(gpu, "PARTS", parts)
    bench = bench_of(gpu, tmp_path / "rows.json")
    assert gpu.run(bench, list(parts)) == 1
    assert len(bench.problems) == 3
    shown = capsys.readouterr().out
    assert "FAILED: full: out of memory" in shown
    assert "FAILED: broken: ValueError: cannot" in shown
    assert "FAILED: twins" in shown
    assert "equal: same" in shown
    assert [row["name"] for row in json.loads((tmp_path / "rows.json").read_text())] == ["a"]


def test_a_result_that_is_no_number_is_not_equal(gpu):
    bench = bench_of(gpu)
    bench.check("nothing", torch.tensor([float("nan")]), torch.ones(1), 1.0)
    assert len(bench.problems) == 1


def test_parts_without_time_are_left_out_and_said_to_be(gpu, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "PARTS", {"late": lambda bench: pytest.fail("it ran")})
    bench = bench_of(gpu)
    bench.end = 0.0
    assert gpu.run(bench, ["late"]) == 1
    assert "left out" in capsys.readouterr().out


@pytest.mark.parametrize("top_k", [1, 2])
def test_the_plain_twin_of_experts_tells_right_from_wrong_routing(gpu, top_k):
    torch.manual_seed(0)
    layer = gpu.routing.ours(gpu.routing.gated(32, 64), 32, top_k)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    rows = torch.randn(1, 20, 32)
    with torch.no_grad():
        right = layer(rows)
        torch.testing.assert_close(right, gpu.one_by_one(layer, rows))
        layer.router.weight.neg_()
        assert (right - gpu.one_by_one(layer, rows)).norm() > 0.1 * right.norm()
