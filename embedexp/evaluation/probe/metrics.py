"""The measures of labelled tasks, as GLUE defines them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedexp.config.schema.probe import ProbeMetric

    Values = NDArray[np.int64] | NDArray[np.float64]


def score(metric: ProbeMetric, expected: Values, predicted: Values) -> float:
    """One measure of n predictions, a fraction (1 is best; correlations may be negative).

    `f1` is of class 1 (equivalent, duplicate); correlations with constant predictions, which are
    undefined, count as 0. Wang et al., GLUE (2019), section 3 and table 1.
    """
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    if metric == "accuracy":
        return float(accuracy_score(expected, predicted))
    if metric == "f1":
        return float(f1_score(expected, predicted, pos_label=1, zero_division=0.0))
    if metric == "matthews":
        return float(matthews_corrcoef(expected, predicted))
    if np.ptp(predicted) == 0 or np.ptp(expected) == 0:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of predictions that are nearly constant
        correlate = pearsonr if metric == "pearson" else spearmanr
        found = float(correlate(expected, predicted).statistic)
    return found if np.isfinite(found) else 0.0
