"""Means over seeds, their intervals, and tests of differences: Student's and Welch's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIDENCE = 0.95

Verdict = Literal["reproduced", "contradicted", "undecided", "no claim", "not measured"]


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` seeds; `half` is half its 95% interval's width, None for one seed."""

    mean: float
    half: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and 95% interval by Student's t with n - 1 degrees of freedom; None without values."""
    if not values:
        return None
    mean, count = fmean(values), len(values)
    if count == 1:
        return Estimate(mean, None, 1)
    from scipy import stats

    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
    return Estimate(mean, quantile * stdev(values) / math.sqrt(count), count)


@dataclass(frozen=True)
class Test:
    """Whether two cells differ: the mean difference, its interval, the two-sided p, and how tested.

    `p` and `half` are None where nothing can be tested: one seed, or no variation between seeds.
    """

    difference: float
    half: float | None
    p: float | None
    method: str
    pairs: int


def compare(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Test | None:
    """The difference of two cells, whose values are given by seed; None if one has no value.

    Paired over the seeds that both have, if there are two or more; else Welch's test over what
    each has. The unit of analysis is the seed: a value is already a mean over tasks.
    """
    if not ours or not theirs:
        return None
    common = sorted(set(ours) & set(theirs))
    if len(common) >= 2 or min(len(ours), len(theirs)) < 2:
        return _paired([ours[seed] - theirs[seed] for seed in common], ours, theirs)
    return _welch(list(ours.values()), list(theirs.values()))


def _paired(
    differences: Sequence[float], ours: Mapping[int, float], theirs: Mapping[int, float]
) -> Test:
    found = estimate(differences)
    if found is None or found.count == 1:
        difference = found.mean if found else fmean(ours.values()) - fmean(theirs.values())
        return Test(difference, None, None, "one seed, no test", len(differences))
    if _constant(differences):
        return Test(found.mean, None, None, "no variation over seeds, no test", found.count)
    from scipy import stats

    p = float(stats.ttest_1samp(differences, 0.0).pvalue)
    return Test(found.mean, found.half, p, f"paired t over {found.count} seeds", found.count)


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> Test:
    difference = fmean(ours) - fmean(theirs)
    if _constant(ours) and _constant(theirs):
        return Test(difference, None, None, "no variation over seeds, no test", 0)
    from scipy import stats

    result = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = result.confidence_interval(CONFIDENCE)
    half = float(interval.high - interval.low) / 2
    method = f"Welch's t, {len(ours)} and {len(theirs)} seeds"
    return Test(difference, half, float(result.pvalue), method, 0)


def _constant(values: Sequence[float]) -> bool:
    """Whether values differ by no more than rounding: then there is no noise to measure."""
    spread = max(values) - min(values)
    return spread <= 1e-9 * max(1.0, *(abs(value) for value in values))


def verdict(test: Test | None, claimed: int) -> Verdict:
    """What a test says about a claimed direction: 1 higher, -1 lower, 0 none.

    Decided only where p is below 5%; never from one seed.
    """
    if test is None:
        return "not measured"
    if not claimed:
        return "no claim"
    if test.p is None or not test.p < 1 - CONFIDENCE:
        return "undecided"
    return "reproduced" if test.difference * claimed > 0 else "contradicted"
