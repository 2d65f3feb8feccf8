"""Intervals of paired differences: Student's against its formula, the bootstrap against a loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from embedexp.evaluation.paired import paired

FIRST = [0.31, 0.52, 0.47, 0.66, 0.12, 0.58, 0.40]
SECOND = [0.35, 0.55, 0.45, 0.71, 0.19, 0.58, 0.49]


def test_students_interval_is_that_of_the_differences() -> None:
    differences = np.subtract(SECOND, FIRST)
    n = len(differences)
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    found = paired(FIRST, SECOND, unit="task")
    assert found.mean == pytest.approx(differences.mean())
    assert (found.low, found.high) == pytest.approx(
        (differences.mean() - half, differences.mean() + half)
    )
    assert found.p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert (found.better, found.equal, found.worse) == (5, 1, 1)
    assert found.unit == "task"
    assert found.n == n


def test_bootstrap_interval_is_near_a_plain_resampling_and_repeats() -> None:
    rng = np.random.default_rng(3)
    differences = np.subtract(SECOND, FIRST)
    means = rng.choice(differences, (20_000, len(differences))).mean(1)
    found = paired(FIRST, SECOND, unit="task")
    assert found.bootstrap_low == pytest.approx(np.quantile(means, 0.025), abs=0.004)
    assert found.bootstrap_high == pytest.approx(np.quantile(means, 0.975), abs=0.004)
    assert found == paired(FIRST, SECOND, unit="task")


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.6, 0.7]])
def test_without_variation_there_is_no_interval(values: list[float]) -> None:
    found = paired(values, [value + 0.1 for value in values], unit="task")
    assert found.mean == pytest.approx(0.1)
    assert found.low is found.high is found.p_value is None
    assert found.bootstrap_low is found.bootstrap_high is None


def test_rounding_and_noise_are_no_variation() -> None:
    exact, percent = [31.0, 52.0, 47.0], [31.0 + 1e-10, 52.0, 47.0 - 1e-10]
    assert paired(exact, percent, unit="seed").p_value is None
    moved = [31.0, 52.0, 47.0005]
    assert paired(exact, moved, unit="seed").p_value is not None
    assert paired(exact, moved, unit="seed", noise=1e-3).p_value is None


def test_without_a_bootstrap_the_rest_is_the_same() -> None:
    whole = paired(FIRST, SECOND, unit="seed")
    found = paired(FIRST, SECOND, unit="seed", bootstrap=False)
    assert found.bootstrap_low is found.bootstrap_high is None
    assert found == replace(whole, bootstrap_low=None, bootstrap_high=None)


def test_values_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="not paired"):
        paired([0.1, 0.2], [0.1], unit="task")
