"""Means over seeds, their intervals, and tests of differences: Student's and Welch's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from embedexp.evaluation.paired import CONFIDENCE, constant, paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOISE = 1e-3
"""Points by which a score may differ without meaning anything: the order of additions does that."""

Verdict = Literal["reproduced", "contradicted", "undecided", "no claim", "not measured"]


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` seeds; `half` is half its 95% interval's width.

    It is None for one seed, and where seeds do not vary: that is no certainty.
    """

    mean: float
    half: float | None
    count: int


def estimate(values: Sequence[float], noise: float = NOISE) -> Estimate | None:
    """Mean and 95% interval by Student's t with n - 1 degrees of freedom; None without values.

    Values whose spread is no more than `noise` do not vary.
    """
    if not values:
        return None
    mean, count = fmean(values), len(values)
    if count == 1 or constant(values, noise):
        return Estimate(mean, None, count)
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


def compare(
    ours: Mapping[int, float], theirs: Mapping[int, float], noise: float = NOISE
) -> Test | None:
    """The difference of two cells, whose values are given by seed; None if one has no value.

    Paired over the seeds that both have, if there are two or more; else Welch's test over what
    each has. The unit of analysis is the seed: a value is already a mean over tasks. `noise` is
    that of `estimate`.
    """
    if not ours or not theirs:
        return None
    common = sorted(set(ours) & set(theirs))
    if len(common) >= 2 or min(len(ours), len(theirs)) < 2:
        return _over_seeds(common, ours, theirs, noise)
    return _welch(list(ours.values()), list(theirs.values()), noise)


def _over_seeds(
    common: Sequence[int],
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    noise: float,
) -> Test:
    if len(common) < 2:
        found = fmean(ours.values()) - fmean(theirs.values())
        if common:
            found = ours[common[0]] - theirs[common[0]]
        return Test(found, None, None, "one seed, no test", len(common))
    first, second = [theirs[seed] for seed in common], [ours[seed] for seed in common]
    test = paired(first, second, unit="seed", noise=noise, bootstrap=False)
    if test.low is None or test.high is None:
        return Test(test.mean, None, None, "no variation over seeds, no test", test.n)
    method = f"paired t over {test.n} seeds"
    return Test(test.mean, (test.high - test.low) / 2, test.p_value, method, test.n)


def _welch(ours: Sequence[float], theirs: Sequence[float], noise: float) -> Test:
    difference = fmean(ours) - fmean(theirs)
    if constant(ours, noise) and constant(theirs, noise):
        return Test(difference, None, None, "no variation over seeds, no test", 0)
    from scipy import stats

    result = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = result.confidence_interval(CONFIDENCE)
    half = float(interval.high - interval.low) / 2
    method = f"Welch's t, {len(ours)} and {len(theirs)} seeds"
    return Test(difference, half, float(result.pvalue), method, 0)


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
