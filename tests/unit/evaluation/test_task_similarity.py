"""MoTE's figure 3: cosines between instructions, Welch's test, effect sizes by their formulas."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from embedexp.evaluation import task_similarity
from embedexp.evaluation.analysis.task_similarity import compare, cosines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TASKS = ("search_query", "classification", "clustering")
TEXTS = [f"text {i}" for i in range(40)]


class Turned:
    """Vectors of a text under a task: one of the text, and `apart` times one of both."""

    def __init__(self, apart: float) -> None:
        self.apart = apart
        self.calls: list[str] = []

    def encode(self, texts: Sequence[str], *, task: str) -> NDArray[np.float32]:
        self.calls.append(task)
        found = []
        for text in texts:
            own = np.random.default_rng(len(text) * 1000 + int(text.split()[1]))
            noise = np.random.default_rng([int(text.split()[1]), TASKS.index(task)])
            found.append(own.normal(size=16) + self.apart * noise.normal(size=16))
        return np.asarray(found, np.float32)


def test_a_pair_has_the_cosine_of_each_text_with_itself() -> None:
    model = Turned(0.5)
    found = task_similarity(model, TEXTS, tasks=TASKS)
    assert [pair.tasks for pair in found] == [
        ("search_query", "classification"),
        ("search_query", "clustering"),
        ("classification", "clustering"),
    ]
    assert sorted(model.calls) == sorted(TASKS)  # each text is embedded once under each task
    first, second = (model.encode(TEXTS, task=task).astype(float) for task in TASKS[:2])
    for i, cosine in enumerate(found[0].cosines):
        a, b = first[i], second[i]
        assert cosine == pytest.approx(a @ b / math.sqrt((a @ a) * (b @ b)), abs=1e-12)
    assert found[0].mean == pytest.approx(np.mean(found[0].cosines))
    assert found[0].std == pytest.approx(np.std(found[0].cosines, ddof=1))
    assert found[0].baseline is None


def test_a_model_that_keeps_tasks_further_apart_is_told_from_its_baseline() -> None:
    apart = task_similarity(Turned(1.5), TEXTS, baseline=Turned(0.3), tasks=TASKS)
    together = task_similarity(Turned(0.3), TEXTS, baseline=Turned(1.5), tasks=TASKS)
    for one, other in zip(apart, together, strict=True):
        assert one.baseline is not None
        assert other.baseline is not None
        assert one.baseline.p_value < 1e-6
        assert one.baseline.cohens_d < -1
        assert other.baseline.p_value > 0.999
        assert one.baseline.difference == pytest.approx(-other.baseline.difference)
        assert one.baseline_cosines == other.cosines


def test_the_test_is_welchs_by_its_formula() -> None:
    rng = np.random.default_rng(1)
    values, reference = rng.normal(0.60, 0.1, 30), rng.normal(0.63, 0.2, 45)
    found = vars(compare(values, reference))
    n, m = len(values), len(reference)
    one, two = values.var(ddof=1) / n, reference.var(ddof=1) / m
    t = (values.mean() - reference.mean()) / math.sqrt(one + two)
    df = (one + two) ** 2 / (one**2 / (n - 1) + two**2 / (m - 1))
    assert found["t"] == pytest.approx(t)
    assert found["df"] == pytest.approx(df)
    assert found["p_value"] == pytest.approx(stats.t.cdf(t, df))
    half = stats.t.ppf(0.975, df) * math.sqrt(one + two)
    difference = values.mean() - reference.mean()
    assert (found["low"], found["high"]) == pytest.approx((difference - half, difference + half))


def test_effect_sizes_are_cohens_and_hedges() -> None:
    rng = np.random.default_rng(2)
    values, reference = rng.normal(0.5, 0.1, 12), rng.normal(0.6, 0.1, 12)
    found = compare(values, reference)
    pooled = math.sqrt((values.var(ddof=1) + reference.var(ddof=1)) / 2)
    d = (values.mean() - reference.mean()) / pooled
    assert found.cohens_d == pytest.approx(d)
    # The exact correction is a quotient of gamma functions; Hedges' approximation is within 0.1 %.
    df = 22
    exact = math.gamma(df / 2) / (math.sqrt(df / 2) * math.gamma((df - 1) / 2))
    assert found.hedges_g == pytest.approx(d * exact, rel=1e-3)
    assert found.paired_p_value == pytest.approx(
        stats.ttest_1samp(values - reference, 0, alternative="less").pvalue
    )


def test_cosines_that_do_not_vary_are_not_tested() -> None:
    found = compare(np.full(5, 1.0), np.full(5, 1.0) - 1e-8)
    assert math.isnan(found.p_value)
    assert math.isnan(found.cohens_d)
    assert math.isnan(found.paired_p_value)
    assert found.difference == pytest.approx(1e-8)


def test_a_zero_vector_has_no_similarity_instead_of_nan() -> None:
    assert cosines(np.zeros((1, 3)), np.ones((1, 3))).tolist() == [0.0]


@pytest.mark.parametrize(("texts", "tasks"), [(TEXTS[:1], TASKS), (TEXTS, TASKS[:1])])
def test_nothing_to_compare_is_refused(texts: list[str], tasks: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        task_similarity(Turned(1), texts, tasks=tasks)
