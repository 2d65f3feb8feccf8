"""GLUE's measures against their formulas, written out."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.evaluation.probe.metrics import score

EXPECTED = np.array([1, 1, 1, 0, 0, 0, 1, 0, 1, 1])
PREDICTED = np.array([1, 0, 1, 0, 1, 0, 1, 0, 0, 1])


def counts():
    tp = int(((EXPECTED == 1) & (PREDICTED == 1)).sum())
    fp = int(((EXPECTED == 0) & (PREDICTED == 1)).sum())
    fn = int(((EXPECTED == 1) & (PREDICTED == 0)).sum())
    return tp, fp, fn, len(EXPECTED) - tp - fp - fn


def test_f1_is_of_the_second_class():
    tp, fp, fn, _ = counts()
    assert score("f1", EXPECTED, PREDICTED) == pytest.approx(2 * tp / (2 * tp + fp + fn))
    assert score("f1", 1 - EXPECTED, 1 - PREDICTED) != score("f1", EXPECTED, PREDICTED)


def test_matthews_correlation_is_its_definition_and_0_for_a_constant():
    tp, fp, fn, tn = counts()
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    expected = (tp * tn - fp * fn) / below
    assert score("matthews", EXPECTED, PREDICTED) == pytest.approx(expected)
    assert score("matthews", EXPECTED, np.ones(10, np.int64)) == 0.0


def test_correlations_are_their_definitions():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=30), rng.normal(size=30)
    centred = a - a.mean(), b - b.mean()
    pearson = (centred[0] @ centred[1]) / np.sqrt((centred[0] ** 2).sum() * (centred[1] ** 2).sum())
    assert score("pearson", a, b) == pytest.approx(pearson)
    ranks = a.argsort().argsort(), b.argsort().argsort()
    squared = ((ranks[0] - ranks[1]) ** 2).sum()
    assert score("spearman", a, b) == pytest.approx(1 - 6 * squared / (30 * (30**2 - 1)))
    assert score("pearson", a, np.zeros(30)) == 0.0
