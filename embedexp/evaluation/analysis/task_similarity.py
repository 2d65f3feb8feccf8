"""analysis=task_similarity: one text's vectors under two instructions (MoTE, figure 3)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.tasks import INSTRUCTIONS

from .context import documents
from .report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from embedexp.evaluation.encoder import Embedder

    from .context import Context

    Vectors = Mapping[str, NDArray[np.floating[Any]]]


RESOLUTION = 1e-6
"""Cosines of float32 vectors that differ by less are equal."""


@dataclass(frozen=True)
class Comparison:
    """Whether a model's cosines are lower than a baseline's; n texts in each arm.

    `t`, `df` and `p_value` are Welch's one-sided test of H0 mean >= baseline's mean against H1
    mean < baseline's (MoTE, figure 3). `difference` is mean minus baseline's, with
    its two-sided 95 % interval; `cohens_d` divides it by the pooled standard deviation, `hedges_g`
    corrects that for small samples by 1 - 3 / (4 (n + m) - 9) (Hedges 1981). The same texts are in
    both arms: `paired_p_value` is the one-sided paired t-test, which uses that.
    """

    baseline_mean: float
    baseline_std: float
    difference: float
    low: float
    high: float
    t: float
    df: float
    p_value: float
    cohens_d: float
    hedges_g: float
    paired_p_value: float


@dataclass(frozen=True)
class Pair:
    """Cosines of each text's vectors under two instructions, `[n]`, and the test, if any."""

    tasks: tuple[str, str]
    cosines: list[float]
    mean: float
    std: float
    baseline: Comparison | None = None
    baseline_cosines: list[float] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def task_similarity(
    embedder: Embedder,
    texts: Sequence[str],
    *,
    baseline: Embedder | None = None,
    tasks: Sequence[str] = INSTRUCTIONS,
) -> list[Pair]:
    """How alike the vectors of n texts are under each pair of instructions (MoTE, figure 3).

    Every text is embedded once under each of `tasks`; a pair of tasks has n cosines, one of each
    text with itself. With a `baseline`, each pair is tested for being lower than there.

    Raises:
        ValueError: fewer than two texts or tasks.
    """
    if len(texts) < 2 or len(tasks) < 2:
        raise ValueError("task_similarity needs at least two texts and two tasks")
    own = {task: embedder.encode(texts, task=task) for task in tasks}
    other = {task: baseline.encode(texts, task=task) for task in tasks} if baseline else None
    return [_pair(pair, own, other) for pair in combinations(tasks, 2)]


def _pair(tasks: tuple[str, str], own: Vectors, other: Vectors | None) -> Pair:
    values = cosines(own[tasks[0]], own[tasks[1]])
    mean, std = float(values.mean()), float(values.std(ddof=1))
    if other is None:
        return Pair(tasks, values.tolist(), mean, std)
    reference = cosines(other[tasks[0]], other[tasks[1]])
    return Pair(tasks, values.tolist(), mean, std, compare(values, reference), reference.tolist())


def cosines(
    first: NDArray[np.floating[Any]], second: NDArray[np.floating[Any]]
) -> NDArray[np.float64]:
    """Row by row, `[n]`, in double precision; 0 where a vector is zero."""
    import numpy as np

    a, b = (np.asarray(each, np.float64) for each in (first, second))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    found: NDArray[np.float64] = np.einsum("nd,nd->n", a, b) / np.where(norms > 0, norms, 1)
    return found


def compare(values: NDArray[np.float64], reference: NDArray[np.float64]) -> Comparison:
    """See `Comparison`; where cosines do not vary there is no test and no effect size, but nan."""
    import numpy as np
    from scipy import stats

    n, m = len(values), len(reference)
    nan = float("nan")
    difference = float(values.mean() - reference.mean())
    low = high = t = df = p_value = d = paired_p_value = nan
    if max(np.ptp(values), np.ptp(reference)) > RESOLUTION:
        welch = stats.ttest_ind(values, reference, equal_var=False, alternative="less")
        t, df, p_value = float(welch.statistic), float(welch.df), float(welch.pvalue)
        low, high = map(
            float, stats.ttest_ind(values, reference, equal_var=False).confidence_interval(0.95)
        )
        pooled = (n - 1) * values.var(ddof=1) + (m - 1) * reference.var(ddof=1)
        d = difference / float(np.sqrt(pooled / (n + m - 2)))
    if n == m and np.ptp(values - reference) > RESOLUTION:
        paired_p_value = float(stats.ttest_rel(values, reference, alternative="less").pvalue)
    return Comparison(
        baseline_mean=float(reference.mean()),
        baseline_std=float(reference.std(ddof=1)),
        difference=difference,
        low=low,
        high=high,
        t=t,
        df=df,
        p_value=p_value,
        cohens_d=d,
        hedges_g=d * (1 - 3 / (4 * (n + m) - 9)),
        paired_p_value=paired_p_value,
    )


def analyse(context: Context) -> Report:
    """The report of `analysis=task_similarity`, and its picture beside it."""
    option = context.option
    texts = documents(option.texts, option.documents)
    context.told("embedding under each instruction")
    baseline = context.load(option.baseline) if option.baseline else None
    found = task_similarity(context.embedder, texts, baseline=baseline, tasks=option.tasks)
    plot(found, context.folder / "task_similarity.png", context.model, option.baseline)
    columns = ["instructions", "cosine"]
    rows: list[list[Any]] = [[_words(pair.tasks), pair.mean] for pair in found]
    notes = []
    if baseline is not None:
        columns += ["baseline", "difference", "Welch p", "Cohen's d", "Hedges' g"]
        for row, pair in zip(rows, found, strict=True):
            test = pair.baseline
            assert test is not None
            row += [test.baseline_mean, test.difference, test.p_value]
            row += [test.cohens_d, test.hedges_g]
        notes.append("Welch's one-sided test: cosines lower than the baseline's.")
        notes.append("Not corrected for several pairs. The arms share their texts: the paired")
        notes.append("test, deviations, intervals and all cosines are in the JSON file.")
    return Report(
        name="task_similarity",
        title="Cosines of a text's vectors under two instructions",
        unit=f"text ({len(texts)} in each arm)",
        settings=context.settings,
        columns=columns,
        rows=rows,
        data={"pairs": [pair.to_dict() for pair in found]},
        notes=notes,
    )


def _words(tasks: tuple[str, str]) -> str:
    return " & ".join(tasks).replace("_", " ")


def plot(found: Sequence[Pair], path: Path, model: str, baseline: str | None) -> None:
    """Write a PNG: for each pair of instructions the distribution of cosines, as in figure 3."""
    import numpy as np

    from embedexp.drawing import BLUE, drawn, plain

    orange = "#c77d1e"
    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    with drawn(
        path, (3.7 * columns, 2.7 * lines + 0.9), "Similarity between instructions"
    ) as figure:
        grid = figure.subplots(lines, columns, squeeze=False)
        everything = np.concatenate(
            [np.asarray(p.cosines + (p.baseline_cosines or [])) for p in found]
        )
        low, high = float(everything.min()), float(everything.max())
        margin = max((high - low) * 0.03, 1e-3)
        bins = np.linspace(low - margin, min(high + margin, 1 + 1e-3), 41)
        for axes, pair in zip(grid.flat, found, strict=False):
            arms = [(pair.cosines, BLUE, plain(Path(model).name))]
            if pair.baseline_cosines is not None:
                arms.append(
                    (pair.baseline_cosines, orange, plain(Path(baseline or "baseline").name))
                )
            for values, colour, label in arms:
                axes.hist(values, bins=bins, color=colour, alpha=0.55, label=label)
                axes.axvline(float(np.mean(values)), color=colour, linewidth=1.5)
            axes.set_title(_words(pair.tasks), fontsize=9)
            axes.set(xlim=(bins[0], bins[-1]))
            axes.grid(axis="y", alpha=0.25)
            if pair.baseline is not None:
                told = f"p = {pair.baseline.p_value:.2g}".replace("nan", "-")
                axes.text(0.03, 0.94, told, transform=axes.transAxes, va="top", fontsize=9)
        for axes in grid.flat[len(found) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("texts")
        for axes in grid[-1]:
            axes.set_xlabel("cosine")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
