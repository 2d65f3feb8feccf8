"""How cost grows: with batch, length, experts, corpus, cells and negatives.

    python benchmarks/scaling.py [--repeats 3] [--threads 1] [--plot scaling.png] [--tiny]

What is measured at four sizes or so, and the slope of the line through it on log-log axes: 1 is
linear, 0 constant. Times are processor times, the least of a few turns, since a machine only ever
makes things slower. Memory of the loss is what it needs beyond the embeddings and their gradients,
in a process of its own. `--plot` draws all of them. A slope above its limit is a missed target.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import dynamic_negatives
import infonce
import launch
import mining
import models
import numpy as np
import routing
import torch
from timing import Row, add_json, measure, write

from embedexp.batching.token_batch import TokenBatch
from embedexp.config.tasks import POSITIVE, QUERY
from embedexp.drawing import BLUE, drawn

if TYPE_CHECKING:
    from collections.abc import Callable


class Growth(NamedTuple):
    """What is measured (`cost`, from a size), in what unit, and the steepest slope expected."""

    name: str
    along: str
    sizes: list[int]
    cost: Callable[[int], float]
    unit: str
    limit: float


def least(run: Callable[[], Any], repeats: int) -> float:
    """Milliseconds of the fastest call, the first left out."""
    run()
    return min(measure(run, "cpu") for _ in range(repeats))


def growths(repeats: int, folder: Path, *, tiny: bool) -> list[Growth]:
    """All of them; the steeper limits allow for what a small size costs at least."""
    width, inner, wide = (32, 64, 32) if tiny else (384, 1536, 768)
    base = models.architecture(width, inner, 2)
    embedder = models.model(base)
    few = 1 if tiny else 4

    def infonce_ms(pairs: int) -> float:
        return least(infonce.step("embedexp", pairs, wide), repeats)

    def batch_ms(pairs: int) -> float:
        return least(models.step(embedder, models.pairs(pairs, 128), pairs), repeats)

    def length_ms(tokens: int) -> float:
        texts = np.random.default_rng(0).integers(5, 8192, (2 * few, tokens)).tolist()
        batch = TokenBatch.pack(texts, [0] * 2 * few, [QUERY] * few + [POSITIVE] * few)
        return least(models.step(embedder, batch, few), repeats)

    def experts_ms(count: int) -> float:
        layer = routing.ours(routing.two_matrices(width, inner), width, 1, count)
        rows = torch.randn(1, 64 if tiny else 4096, width)
        return least(routing.step(layer, rows), repeats)

    def corpus_ms(documents: int) -> float:
        queries, corpus = mining.inputs(min(500, documents), documents)
        run = mining.ours(queries, corpus, "exact")
        return least(run, repeats)

    def cells_ms(count: int) -> float:
        launch.plan_seconds(4, folder / f"warm-{count}")
        return 1e3 * launch.plan_seconds(count, folder / f"cells-{count}")[0]

    def status_ms(count: int) -> float:
        return 1e3 * min(launch.status_seconds(folder / f"cells-{count}") for _ in range(repeats))

    def judging_ms(examples: int) -> float:
        return dynamic_negatives.judging(examples, 32)

    def memory_mib(pairs: int) -> float:
        return infonce.memory_apart("embedexp", pairs, wide)

    pairs = [64, 128] if tiny else [2048, 4096, 8192, 16384]
    cells = [4, 8] if tiny else [125, 250, 500, 1000]
    found = [
        Growth("InfoNCE, time", "pairs", pairs, infonce_ms, "ms", 2.1),
        Growth("a step, time", "pairs", [4, 8] if tiny else [8, 16, 32, 64], batch_ms, "ms", 1.15),
        Growth(
            "a step, time",
            "tokens of a text",
            [16, 32] if tiny else [32, 64, 128, 256, 512],
            length_ms,
            "ms",
            1.5,
        ),
        Growth(
            "a layer of experts, time",
            "experts",
            [2, 4] if tiny else [2, 4, 8, 16],
            experts_ms,
            "ms",
            0.25,
        ),
        Growth(
            "mining, time",
            "documents",
            [200, 400] if tiny else [12500, 25000, 50000, 100000],
            corpus_ms,
            "ms",
            1.1,
        ),
        Growth("planning, time", "cells", cells, cells_ms, "ms", 1.1),
        Growth("status, time", "runs", cells, status_ms, "ms", 1.1),
        Growth(
            "dynamic negatives, time of a step",
            "examples",
            [100, 200] if tiny else [1000, 10000, 100000, 1000000],
            judging_ms,
            "ms",
            0.25,
        ),
    ]
    if not tiny:
        found.append(Growth("InfoNCE, memory", "pairs", pairs, memory_mib, "MiB", 1.1))
    return found


def slope(sizes: list[int], costs: list[float]) -> float:
    """Of the least-squares line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(costs, 1e-9)), 1)[0])


def draw(measured: list[tuple[Growth, list[float]]], path: Path) -> None:
    """A log-log panel each, with the slope."""
    columns = 3
    lines = -(-len(measured) // columns)
    with drawn(path, (4 * columns, 3.2 * lines)) as figure:
        panels = figure.subplots(lines, columns, squeeze=False).flatten()
        for panel, (growth, costs) in zip(panels, measured, strict=False):
            panel.loglog(growth.sizes, costs, marker="o", color=BLUE)
            panel.set_xlabel(growth.along)
            panel.set_ylabel(growth.unit)
            steep = f"slope {slope(growth.sizes, costs):.2f}, at most {growth.limit:g}"
            panel.set_title(f"{growth.name}\n{steep}", fontsize=10)
            panel.set_xticks(growth.sizes, [f"{size:,}" for size in growth.sizes])
            panel.minorticks_off()
            low, high = panel.get_ylim()
            if high / low < 10:  # what is constant should look it
                middle = (low * high) ** 0.5
                panel.set_ylim(middle / 10**0.5, middle * 10**0.5)
        for panel in panels[len(measured) :]:
            panel.set_axis_off()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="a picture of all")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    measured, rows = [], []
    with tempfile.TemporaryDirectory() as name:
        for growth in growths(1 if given.tiny else given.repeats, Path(name), tiny=given.tiny):
            costs = [growth.cost(size) for size in growth.sizes]
            steep = slope(growth.sizes, costs)
            title = f"{growth.name} by {growth.along}"
            pairs = zip(growth.sizes, costs, strict=True)
            shown = ", ".join(f"{size:,}: {cost:.3g}" for size, cost in pairs)
            print(f"{title:44} slope {steep:5.2f} (at most {growth.limit:g})", flush=True)
            print(f"    {shown} {growth.unit}", flush=True)
            measured.append((growth, costs))
            rows.append(Row(f"slope of {title}", "", [steep], "", most=growth.limit))
    if given.plot is not None:
        draw(measured, given.plot)
    write(given.json, rows)


if __name__ == "__main__":
    main()
