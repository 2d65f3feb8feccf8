"""Intervals and tests are those of the textbook, and one seed decides nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from embedexp.sweeps.statistics import compare, estimate, verdict


def test_interval_is_students_by_hand() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    # t(0.975, 2) = 4.302653 from a table; the standard deviation is 1.
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.count == 3


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    assert estimate([4.0]).half is None
    assert estimate([]) is None


@pytest.mark.parametrize("spread", [0.0, 0.0004])
def test_seeds_that_do_not_vary_have_no_interval_rather_than_one_of_no_width(spread: float) -> None:
    found = estimate([50.0, 50.0 + spread, 50.0])
    assert found.mean == pytest.approx(50.0 + spread / 3)
    assert found.half is None


def test_a_figure_may_vary_by_less_than_a_score_can() -> None:
    half = 4.302653 * 2e-4 / math.sqrt(3)
    assert estimate([0.5, 0.5002, 0.5004], noise=0.0).half == pytest.approx(half)
    found = compare({0: 0.5, 1: 0.5001, 2: 0.5002}, {0: 0.4, 1: 0.4002, 2: 0.4001}, noise=0.0)
    assert found.p < 0.05


def test_interval_holds_the_mean_in_95_of_100_experiments() -> None:
    draws = np.random.default_rng(0).normal(7.0, 2.0, size=(4000, 3))
    held = [abs(e.mean - 7.0) <= e.half for e in map(estimate, draws.tolist())]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


def test_paired_test_is_that_of_the_differences_by_hand() -> None:
    theirs = {0: 10.0, 1: 20.0, 2: 30.0}
    found = compare({0: 11.0, 1: 22.0, 2: 33.0}, theirs)
    # Differences 1, 2, 3: t = 2 sqrt(3); with two degrees of freedom p = 1 - t / sqrt(t^2 + 2).
    t = 2 * math.sqrt(3)
    assert found.difference == pytest.approx(2.0)
    assert found.p == pytest.approx(1 - t / math.sqrt(t**2 + 2), rel=1e-9)
    assert found.half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert found.method == "paired t over 3 seeds"


def test_only_seeds_that_both_have_are_paired() -> None:
    found = compare({0: 1.0, 1: 5.0, 7: 100.0}, {0: 0.0, 1: 3.0, 9: -100.0})
    assert found.difference == pytest.approx(1.5)
    assert found.method == "paired t over 2 seeds"


def test_seeds_that_none_shares_are_compared_by_welch() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 9.0]
    found = compare(dict(enumerate(a)), {10 + i: value for i, value in enumerate(b)})
    va, vb = np.var(a, ddof=1) / 4, np.var(b, ddof=1) / 3
    t = (np.mean(a) - np.mean(b)) / math.sqrt(va + vb)
    freedom = (va + vb) ** 2 / (va**2 / 3 + vb**2 / 2)
    assert found.difference == pytest.approx(-2.5)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9)
    assert found.half == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(va + vb), rel=1e-9)
    assert found.method == "Welch's t, 4 and 3 seeds"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({0: 90.0}, {0: 10.0}),
        ({0: 90.0}, {1: 10.0}),
        ({0: 90.0, 1: 91.0, 2: 90.5}, {0: 10.0}),
        ({0: 90.0, 1: 91.0, 2: 90.5}, {5: 10.0}),
    ],
)
def test_no_verdict_comes_from_one_seed(ours: dict[int, float], theirs: dict[int, float]) -> None:
    found = compare(ours, theirs)
    assert found.difference > 50
    assert found.p is None
    assert verdict(found, 1) == "undecided"


def test_runs_that_ignore_their_seed_are_no_repetitions() -> None:
    found = compare({0: 50.0, 1: 50.0, 2: 50.0}, {0: 40.0, 1: 40.0, 2: 40.0})
    assert found.p is None
    assert "no variation" in found.method
    assert verdict(found, 1) == "undecided"


def test_equal_differences_up_to_rounding_are_no_evidence_either() -> None:
    theirs = {0: 40.1, 1: 40.7, 2: 41.3}
    found = compare({seed: value + 0.3 for seed, value in theirs.items()}, theirs)
    assert found.p is None


@pytest.mark.parametrize(
    ("differences", "claim", "expected"),
    [
        ([5.0, 5.1, 5.2], 1, "reproduced"),
        ([5.0, 5.1, 5.2], -1, "contradicted"),
        ([-5.0, -5.1, -5.2], -1, "reproduced"),
        ([5.0, -5.1, 5.2], 1, "undecided"),
        ([5.0, 5.1, 5.2], 0, "no claim"),
    ],
)
def test_verdict_follows_direction_and_significance(
    differences: list[float], claim: int, expected: str
) -> None:
    found = compare(dict(enumerate(differences)), dict.fromkeys(range(3), 0.0))
    assert verdict(found, claim) == expected


def test_nothing_measured_is_no_verdict() -> None:
    assert compare({}, {0: 1.0}) is None
    assert verdict(None, 1) == "not measured"
