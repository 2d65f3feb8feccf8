"""Paired comparisons: the mean difference of two models over the same units, with an interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
RESAMPLES = 9999
ROUNDING = 1e-9
"""Share of the largest value by which equal values may differ: scores are sums of doubles."""


@dataclass(frozen=True)
class Paired:
    """The mean of second minus first over `n` units, in the units of the values.

    `unit` names what was compared in pairs: the interval says how the mean would vary over other
    such units, not over seeds or texts. `low` and `high` bound Student's interval at 95 %, with
    its two-sided p-value; `bootstrap_low` and `bootstrap_high` the bias-corrected and accelerated
    bootstrap interval (Efron 1987), None where none was asked for. All are None where there are
    fewer than two units, or where all differences are equal.
    """

    unit: str
    n: int
    mean: float
    better: int
    worse: int
    equal: int
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    bootstrap_low: float | None = None
    bootstrap_high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def paired(
    first: Sequence[float],
    second: Sequence[float],
    *,
    unit: str,
    seed: int = 0,
    noise: float = 0.0,
    bootstrap: bool = True,
) -> Paired:
    """Compare two models on the same units, given in the same order.

    The t-test is scipy's `ttest_rel`; the bootstrap draws 9,999 samples of units with a generator
    seeded by `seed`. Differences whose spread is no more than `noise` count as equal.

    Raises:
        ValueError: the numbers of units differ, or there are none.
    """
    import numpy as np

    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} values are not paired")
    differences = np.asarray(second, np.float64) - np.asarray(first, np.float64)
    signs = np.sign(differences)
    found = Paired(
        unit=unit,
        n=len(differences),
        mean=float(differences.mean()),
        better=int((signs > 0).sum()),
        worse=int((signs < 0).sum()),
        equal=int((signs == 0).sum()),
    )
    if len(differences) < 2 or constant(differences.tolist(), noise):
        return found
    from scipy import stats

    test = stats.ttest_rel(second, first)
    interval = test.confidence_interval(CONFIDENCE)
    found = replace(
        found, low=float(interval.low), high=float(interval.high), p_value=float(test.pvalue)
    )
    if not bootstrap:
        return found
    resampled = stats.bootstrap(
        (differences,),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return replace(
        found,
        bootstrap_low=float(resampled.low),
        bootstrap_high=float(resampled.high),
    )


def constant(values: Sequence[float], noise: float = 0.0) -> bool:
    """Whether values differ by no more than `noise` or rounding: nothing can be tested then."""
    spread = max(values) - min(values)
    return spread <= max(noise, ROUNDING * max(1.0, *(abs(value) for value in values)))
