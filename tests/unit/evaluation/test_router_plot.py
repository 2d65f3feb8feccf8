from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedexp.evaluation.router_plot import plot_routing

from .test_plots import METRICS, size

if TYPE_CHECKING:
    from pathlib import Path


def lines(layers: int, experts: int) -> list[dict]:
    found = [
        {"step": step, "router": {"max_load": 0.5, "min_load": 0.1, "entropy": 1.0, "dead": 0.0}}
        for step in range(1, 6)
    ]
    found[-1]["router"]["load"] = [[1 / experts] * experts] * layers
    return found


@pytest.mark.parametrize(("layers", "experts"), [(1, 2), (6, 8), (32, 64)])
def test_a_plot_of_any_size(tmp_path: Path, layers: int, experts: int) -> None:
    path = tmp_path / "run" / "routing.png"
    assert plot_routing(lines(layers, experts), path, title="a_b $c")
    width, height = size(path)
    assert width > 1000
    assert height > 400
    assert [p.name for p in path.parent.iterdir()] == ["routing.png"]


def test_the_plot_shows_the_load(tmp_path: Path) -> None:
    even, skewed = lines(2, 4), lines(2, 4)
    skewed[-1]["router"]["load"] = [[0.7, 0.1, 0.1, 0.1]] * 2
    plot_routing(even, tmp_path / "even.png")
    plot_routing(skewed, tmp_path / "skewed.png")
    assert (tmp_path / "even.png").read_bytes() != (tmp_path / "skewed.png").read_bytes()


@pytest.mark.parametrize("metrics", [[], METRICS, lines(1, 2)[:3]])
def test_without_a_router_there_is_no_plot(tmp_path: Path, metrics: list) -> None:
    assert not plot_routing(metrics, tmp_path / "routing.png")
    assert not list(tmp_path.iterdir())
