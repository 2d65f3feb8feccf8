from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedexp.evaluation import Score
from embedexp.evaluation.plots import plot_run, smoothed

if TYPE_CHECKING:
    from pathlib import Path

METRICS = [{"step": step, "loss": 2 / step, "learning_rate": 1e-4} for step in range(1, 21)]


def score(task: str, value: float) -> Score:
    return Score(task, "STS", "cosine_spearman", value, 1.0, "hash")


def size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.parametrize(
    ("before", "after"),
    [([], []), ([], [0.5]), ([0.2], [0.5]), ([0.9, -0.2], [0.8]), ([0.4], [])],
)
def test_plot_is_drawn_for_whatever_there_is(
    tmp_path: Path, before: list[float], after: list[float]
) -> None:
    scores = {
        "before": [score(f"task {i} $x$", value) for i, value in enumerate(before)],
        "after": [score(f"task {i} $x$", value) for i, value in enumerate(after)],
    }
    path = tmp_path / "run" / "plot.png"
    plot_run(METRICS, scores, path, title="a_b $c")
    width, height = size(path)
    assert width > 1000
    assert height > 400
    assert [p.name for p in path.parent.iterdir()] == ["plot.png"]


def test_losses_that_are_not_numbers_are_left_out(tmp_path: Path) -> None:
    lines = [*METRICS, {"step": 21, "loss": float("nan")}, {"step": 22}, {"step": 23, "loss": None}]
    plot_run(METRICS, {}, tmp_path / "clean.png")
    plot_run(lines, {}, tmp_path / "dirty.png")
    assert (tmp_path / "clean.png").read_bytes() == (tmp_path / "dirty.png").read_bytes()


def test_smoothing_is_unbiased_and_follows_a_jump() -> None:
    assert smoothed([3.0] * 5, 4) == pytest.approx([3.0] * 5)
    jump = smoothed([0.0] * 50 + [1.0] * 50, 5)
    assert jump[54] == pytest.approx(0.5, abs=0.01)  # after one half-life
    assert jump[-1] == pytest.approx(1, abs=0.01)
