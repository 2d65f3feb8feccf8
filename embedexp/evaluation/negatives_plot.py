"""One picture of dynamic negatives: how hard they were, and how many were replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.drawing import BLUE, GREY, RED, drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def plot_negatives(
    metrics: Sequence[Mapping[str, Any]], path: Path, *, title: str | None = None
) -> bool:
    """Write a PNG from lines of metrics.jsonl; False, and no file, without dynamic negatives.

    On the left, the mean cosine of queries with their hard negatives; on the right, the share of
    judged negatives that were replaced, and that had no candidate left.
    """
    lines = [line for line in metrics if line.get("negatives")]
    if not lines:
        return False
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    with drawn(path, (11, 4), title) as figure:
        left, right = figure.subplots(1, 2)
        for axes in (left, right):
            axes.grid(alpha=0.25)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        hard = [line for line in lines if "hardness" in line["negatives"]]
        left.set(title="Hardness", xlabel="step", ylabel="mean cosine with the query")
        left.plot(
            [line["step"] for line in hard],
            [line["negatives"]["hardness"] for line in hard],
            ".-",
            color=BLUE,
        )
        judged = [line for line in lines if line["negatives"]["judged"]]
        steps = [line["step"] for line in judged]
        right.set(title="Replacement", xlabel="step", ylabel="share of judged negatives")
        for key, label, colour in (
            ("replaced", "replaced", RED),
            ("exhausted", "easy, no candidate left", GREY),
        ):
            shares = [line["negatives"][key] / line["negatives"]["judged"] for line in judged]
            right.plot(steps, shares, ".-", color=colour, label=label)
        right.yaxis.set_major_formatter(PercentFormatter(1.0))
        right.set_ylim(bottom=0)
        right.legend(frameon=False)
    return True
