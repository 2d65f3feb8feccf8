"""One picture of learned routing: how even the load became, and who got what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.drawing import BLUE, GREY, RED, drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def plot_routing(
    metrics: Sequence[Mapping[str, Any]], path: Path, *, title: str | None = None
) -> bool:
    """Write a PNG from lines of metrics.jsonl; False, and no file, where no router reported.

    On the left, the largest and smallest share that an expert got at each step (means over
    layers) and the balanced share; on the right, each expert's share since the first step.
    """
    lines = [line for line in metrics if line.get("router")]
    if not lines or not lines[-1]["router"].get("load"):
        return False
    from matplotlib.ticker import MaxNLocator

    load = lines[-1]["router"]["load"]
    layers, experts = len(load), len(load[0])
    steps = [line["step"] for line in lines]
    with drawn(path, (11, max(4.0, 2.0 + 0.25 * layers)), title) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        left.set(title="Load per step, mean over layers", xlabel="step", ylabel="share of tokens")
        left.grid(alpha=0.25)
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
        for key, label, colour in (
            ("max_load", "busiest expert", RED),
            ("min_load", "idlest expert", BLUE),
        ):
            values = [line["router"][key] for line in lines]
            left.plot(steps, values, ".-", color=colour, label=label)
        left.axhline(1 / experts, color=GREY, linestyle="--", label="balance")
        left.set_ylim(bottom=0)
        left.legend(frameon=False)
        image = right.imshow(load, aspect="auto", cmap="viridis", vmin=0)
        right.set(title="Load of each expert, whole training")
        right.set(xlabel="expert", ylabel="routed layer, in order")
        right.xaxis.set_major_locator(MaxNLocator(integer=True))
        right.set_yticks(range(0, layers, 1 + layers // 12))
        figure.colorbar(image, ax=right, label="share of tokens")
    return True
