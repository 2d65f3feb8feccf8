"""CoSENT over many scored pairs: processor time and memory against the quadratic form.

    python benchmarks/cosent.py [--sizes 1024 4096] [--repeats 9] [--threads 1] [--tiny]

Value and gradient in float32, of cosines with labels on a scale of 21 grades. The quadratic form is
the field's usual code: all differences, one logsumexp. The log-log slope over the sizes says how
each grows: about 1 for n log n, 2 for the quadratic form.
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

import torch
from timing import Row, Variant, add_json, compare, write

from embedexp.loss import cosent

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

TARGET = 20
"""Times that the quadratic form takes at 4,096 pairs, at least."""


def quadratic(scores: Tensor, labels: Tensor, scale: float = 20.0) -> Tensor:
    """log(1 + sum of e^(scale (s_i - s_j)) over label_i < label_j), from all n^2 differences."""
    differences = scale * (scores[:, None] - scores[None, :])
    differences = differences.masked_fill(labels[:, None] >= labels[None, :], float("-inf"))
    zero = differences.new_zeros(1)
    return torch.cat([zero, differences.flatten()]).logsumexp(0)


def step(loss: Callable[[Tensor, Tensor], Tensor], size: int) -> Callable[[], None]:
    """Value and gradient of n pairs."""
    scores = (2 * torch.rand(size) - 1).requires_grad_()
    labels = torch.randint(0, 21, (size,)) / 20

    def run() -> None:
        scores.grad = None
        loss(scores, labels).backward()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    sizes, repeats = ([64, 128], 2) if given.tiny else (given.sizes, given.repeats)
    print(f"float32, {given.threads} threads; target: {TARGET} times at 4,096 pairs")
    print(f"{'pairs':>6}  {'form':10} {'ms':>9} {'quadratic /':>12}")
    grown: dict[str, list[float]] = {"quadratic": [], "embedexp": []}
    rows = []
    for size in sizes:
        steps = {
            "quadratic": Variant(step(quadratic, size), "quadratic"),
            "embedexp": Variant(step(cosent, size), "quadratic"),
        }
        for name, taken in compare(steps, "cpu", repeats).items():
            times = taken.milliseconds
            grown[name].append(times)
            print(f"{size:>6}  {name:10} {times:9.3f} {1 / taken.ratio:12.1f}", flush=True)
            if name == "embedexp":
                faster = [1 / ratio for ratio in taken.ratios]
                least = TARGET if size == 4096 else None
                rows.append(Row(f"{size:,} pairs, times faster", "quadratic", faster, least=least))
    if len(sizes) > 1:
        steps_of_size = math.log(sizes[-1] / sizes[0])
        for name, medians in grown.items():
            slope = math.log(medians[-1] / medians[0]) / steps_of_size
            print(f"slope of {name}: {slope:.2f}")
    write(given.json, rows)


if __name__ == "__main__":
    main()
