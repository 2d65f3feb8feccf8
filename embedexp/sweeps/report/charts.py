"""The page's charts: levels, differences, curves, distributions and loads."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Literal

from ..formats import number
from .svg import FAINT, INK, SERIES, chart, label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from ..comparing import Compared
    from ..statistics import Estimate
    from .curves import Curve
    from .svg import Chart

TOGETHER = len(SERIES)
"""Series on one chart: more could not be told apart."""
_DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = "osD^vPX*"
_SAID = 8  # series that a chart's words name
_DIVERGED = 10.0

Point = tuple[str, float, float | None, "Sequence[float]"]
"""A name, a value, half its interval, and the single seeds' values."""


def _wrapped(text: str, width: int = 22) -> str:
    """A long label on up to three lines."""
    return "\n".join(textwrap.wrap(label(text, 3 * width), width, max_lines=3)) or " "


def _legend(axes: Axes, count: int) -> None:
    """Below, where it hides nothing; a single series needs none."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    axes.figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2 if count > 1 and max(map(len, labels)) <= 26 else 1,
        frameon=False,
    )


def _height(series: Sequence[str]) -> float:
    """Inches for a chart with these names in its legend."""
    columns = 2 if len(series) > 1 and max(map(len, series)) <= 26 else 1
    return 3.1 + 0.24 * math.ceil(len(series) / columns)


def _look(axes: Axes, direction: Literal["both", "x", "y"] = "both") -> None:
    axes.grid(axis=direction, alpha=0.5, linewidth=0.6)
    axes.set_axisbelow(True)


def curves(key: str, caption: str, found: Sequence[Curve], limits: tuple[float, float]) -> Chart:
    """Curves over steps, a band from the lowest to the highest seed around each."""
    from matplotlib.ticker import MaxNLocator

    names = [curve.name for curve in found]
    with chart(caption, _height(names), key) as (figure, made):
        axes = figure.subplots()
        _look(axes)
        for curve in found:
            position, alone = curve.place % TOGETHER, len(curve.steps) == 1
            colour = SERIES[position]
            axes.plot(
                curve.steps,
                curve.mean,
                marker=_MARKERS[position] if alone else "",
                color=colour,
                linestyle=_DASHES[position % len(_DASHES)],
                linewidth=2,
                label=label(curve.name),
            )
            if curve.seeds > 1 and not alone:
                axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.15)
        axes.set(xlabel="step", ylim=limits)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        _legend(axes, len(found))
        ends = [f"{c.name} {c.mean[0]:.4g} to {c.mean[-1]:.4g}" for c in found[:_SAID]]
        made.words = (
            f"Lines over training steps {found[0].steps[0]} to {found[0].steps[-1]}, "
            f"from first to last: {'; '.join(ends)}."
        )
        high = [curve.name for curve in found if max(curve.mean) > limits[1]]
        if high:
            made.caption += f" (leaving the chart: {', '.join(high)})"
    return made


def limits(groups: Sequence[Sequence[Curve]]) -> tuple[float, float]:
    """A vertical range that charts share, so that they can be compared.

    Curves that rise ten times as high as the median one, since they diverge, would flatten the
    others; they leave the chart.
    """
    every = [curve for group in groups for curve in group]
    low = min(min(curve.low) for curve in every)
    tops = sorted(max(curve.high) for curve in every)
    bound = low + _DIVERGED * (tops[(len(tops) - 1) // 2] - low)
    high = max((top for top in tops if top <= bound), default=tops[-1])
    margin = 0.05 * (high - low) or max(abs(high), 1e-3) * 0.1
    return low - margin, high + margin


def levels(
    key: str,
    caption: str,
    columns: Sequence[str],
    rows: Mapping[str, tuple[int, Sequence[Estimate | float | None]]],
    axis: str,
) -> Chart:
    """A value for each row and column: columns along, a line for each row, with its interval.

    `rows` has each row's place in the table, which gives it its colour, and its values.
    """
    with chart(caption, _height(list(rows)), key) as (figure, made):
        axes = figure.subplots()
        _look(axes, "y")
        told = []
        for line, (row, (place, values)) in enumerate(rows.items()):
            position = place % TOGETHER
            at = [n for n, value in enumerate(values) if value is not None]
            level = [_mean(values[n]) for n in at]
            half = [_half(values[n]) for n in at]
            shift = 0.06 * (line - (len(rows) - 1) / 2)
            axes.errorbar(
                [n + shift for n in at],
                level,
                yerr=None if all(map(math.isnan, half)) else half,
                color=SERIES[position],
                marker=_MARKERS[position],
                linestyle=_DASHES[position % len(_DASHES)],
                capsize=3,
                linewidth=1.8,
                label=label(row),
            )
            figures = (f"{columns[n]} {number(v)}" for n, v in zip(at, level, strict=True))
            told.append(f"{row}: {', '.join(figures)}")
        axes.set_xticks(range(len(columns)), [_wrapped(text, 12) for text in columns])
        axes.set(ylabel=label(axis), xlim=(-0.5, len(columns) - 0.5))
        _legend(axes, len(rows))
        made.words = f"{'; '.join(told[:_SAID])}."
    return made


def _mean(value: Estimate | float | None) -> float:
    return value if isinstance(value, float) else value.mean if value is not None else math.nan


def _half(value: Estimate | float | None) -> float:
    """Without an interval nan, which draws nothing; 0 would be one of no width."""
    found = value.half if value is not None and not isinstance(value, float) else None
    return math.nan if found is None else found


def dots(
    key: str, caption: str, points: Sequence[Point], axis: str, *, paper: bool, signed: bool
) -> Chart:
    """A dot with its interval for each name, and a faint one for each seed."""
    with chart(caption, 1.0 + 0.52 * len(points), key) as (figure, made):
        axes = figure.subplots()
        _look(axes, "x")
        for position, (_, value, half, seeds) in enumerate(points):
            if len(seeds) > 1:
                axes.plot(seeds, [position] * len(seeds), "o", color=SERIES[0], alpha=0.35)
            axes.errorbar(
                value,
                position,
                xerr=half,
                color=INK if paper else SERIES[0],
                marker="D" if paper else "o",
                capsize=4,
                linewidth=2,
            )
            axes.annotate(
                number(value, signed=signed),
                (value, position),
                xytext=(0, 7),
                textcoords="offset points",
                ha="center",
            )
        axes.set_yticks(range(len(points)), [_wrapped(name) for name, *_ in points])
        axes.set(xlabel=label(axis), ylim=(len(points) - 0.4, -0.7))
        axes.margins(x=0.12)
        told = [
            f"{name} {number(value, signed=signed)}"
            + (f" ± {number(half)}" if half is not None else "")
            for name, value, half, _ in points
        ]
        made.words = f"{'; '.join(told)}."
    return made


def differences(
    key: str, caption: str, found: Sequence[Compared], measure: str, columns: Sequence[str]
) -> Chart:
    """A line for each comparison of `measure`: our difference, its interval, and the paper's.

    `columns` names where in the table each of them is.
    """
    from ..formats import MARKS

    with chart(caption, 1.55 + 0.62 * len(found), key) as (figure, made):
        axes = figure.subplots()
        _look(axes, "x")
        axes.axvline(0, color=INK, linewidth=1)
        told, names, looks = [], [], set[str]()
        for position, (one, column) in enumerate(zip(found, columns, strict=True)):
            said = []
            if one.test is not None:
                look: str = one.verdict if one.verdict in _LOOKS else ""
                looks.add(look)
                axes.errorbar(
                    one.test.difference, position, xerr=one.test.half, capsize=4, linewidth=2,
                    **_LOOKS[look][1],
                )  # fmt: skip
                said.append(f"ours {number(one.test.difference, signed=True)}")
            if one.published is not None:
                looks.add(_PAPER)
                axes.plot(one.published, position, zorder=3, linestyle="", **_LOOKS[_PAPER][1])
                said.append(f"paper {number(one.published, signed=True)}")
            name = f"{one.of} less {one.against}" + (f" ({one.where})" if one.where else "")
            told.append(f"{name}: {', '.join([*said, MARKS[one.verdict]])}")
            name = _wrapped(f"{one.of} \N{MINUS SIGN} {one.against}")
            names.append(f"{name}\n{label(column, 24)}" if column else name)
        for look, (meaning, how) in _LOOKS.items():
            if look in looks:
                axes.plot([], [], linestyle="", label=meaning, **how)
        _legend(axes, len(looks))
        axes.set_yticks(range(len(found)), names)
        axes.set(xlabel=label(f"difference in {measure}"), ylim=(len(found) - 0.4, -0.6))
        axes.margins(x=0.1)
        made.words = f"{'; '.join(told)}."
    return made


_PAPER = "paper"
_LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "": ("ours, 95% interval", {"color": SERIES[0], "marker": "o"}),
    "undecided": (
        "ours, undecided",
        {"color": SERIES[0], "marker": "o", "markerfacecolor": "none"},
    ),
    "contradicted": ("ours, contradicts", {"color": SERIES[4], "marker": "s"}),
    _PAPER: ("paper", {"color": INK, "marker": "D", "markerfacecolor": "none"}),
}
"""What a dot means, and how it is drawn, by verdict; reproduced ones look like any."""


def widths(
    key: str, caption: str, found: Mapping[str, Mapping[int, Sequence[float]]], axis: str
) -> Chart:
    """A score against the number of dimensions that are kept, one line a name, over its seeds."""
    from matplotlib.ticker import NullLocator

    with chart(caption, _height(list(found)), key) as (figure, made):
        axes = figure.subplots()
        _look(axes)
        told, every = [], sorted({width for by_width in found.values() for width in by_width})
        for position, (name, by_width) in enumerate(found.items()):
            at = sorted(by_width)
            level = [sum(by_width[width]) / len(by_width[width]) for width in at]
            axes.plot(
                at,
                level,
                marker=_MARKERS[position],
                color=SERIES[position],
                linestyle=_DASHES[position % len(_DASHES)],
                label=label(name),
            )
            axes.fill_between(
                at,
                [min(by_width[width]) for width in at],
                [max(by_width[width]) for width in at],
                color=SERIES[position],
                alpha=0.15,
            )
            figures = (f"{width}: {value:.3f}" for width, value in zip(at, level, strict=True))
            told.append(f"{name}, {', '.join(figures)}")
        axes.set_xscale("log", base=2)
        axes.set_xticks(every, [str(width) for width in every])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel="dimensions", ylabel=axis)
        _legend(axes, len(found))
        made.words = f"{'; '.join(told[:_SAID])}."
    return made


def boxes(key: str, caption: str, found: Mapping[str, Sequence[float]], axis: str) -> Chart:
    """Median, quartiles and whiskers (1.5 times their distance) of each name's values."""
    import numpy as np

    with chart(caption, 1.0 + 0.5 * len(found), key) as (figure, made):
        axes = figure.subplots()
        _look(axes, "x")
        ink: dict[str, Any] = {"color": INK, "linewidth": 1.2}
        axes.boxplot(
            list(found.values()),
            orientation="horizontal",
            showfliers=False,
            widths=0.5,
            patch_artist=True,
            boxprops={"facecolor": SERIES[0], "alpha": 0.4, "edgecolor": INK},
            medianprops={"color": INK, "linewidth": 2.2},
            whiskerprops=ink,
            capprops=ink,
        )
        axes.set_yticks(range(1, len(found) + 1), [_wrapped(name) for name in found])
        axes.set(xlabel=axis)
        axes.invert_yaxis()
        told = [f"{name} {float(np.median(values)):.3f}" for name, values in found.items()]
        made.words = f"Medians: {'; '.join(told)}."
    return made


def load(key: str, caption: str, shares: Sequence[Sequence[float]]) -> Chart:
    """Each expert's share of its layer's tokens, as a map of layers and experts."""
    from matplotlib.ticker import MaxNLocator

    count, experts = len(shares), len(shares[0])
    with chart(caption, max(2.2, 1.3 + 0.16 * count), key) as (figure, made):
        axes = figure.subplots()
        image = axes.imshow(shares, aspect="auto", cmap="viridis", vmin=0)
        axes.set(xlabel="expert", ylabel="routed layer")
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        bar = figure.colorbar(image, ax=axes, label="share of tokens")
        bar.outline.set_edgecolor(FAINT)
        least, most = (f(share for layer in shares for share in layer) for f in (min, max))
        made.words = (
            f"{count} routed layers with {experts} experts; shares from {least:.1%} to {most:.1%}, "
            f"balance is {1 / experts:.1%}."
        )
    return made
