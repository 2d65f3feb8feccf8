"""Timing in turns, so that a noisy machine is as noisy for everybody who is compared."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WARM_UPS = 2


class Variant(NamedTuple):
    """What is timed, and the name of the variant that it is compared with."""

    run: Callable[[], None]
    against: str


def measure(run: Callable[[], None], device: str) -> float:
    """Milliseconds of one call: CPU time on a CPU, wall time elsewhere."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    if device != "cpu":
        torch.cuda.synchronize()
    begin = clock()
    run()
    if device != "cpu":
        torch.cuda.synchronize()
    return 1e3 * (clock() - begin)


def compare(
    variants: Mapping[str, Variant], device: str, repeats: int
) -> dict[str, tuple[float, float]]:
    """Median milliseconds of each variant, and the median of its ratios within a turn."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for turn in range(repeats + WARM_UPS):
        for name, variant in variants.items():
            taken = measure(variant.run, device)
            if turn >= WARM_UPS:
                times[name].append(taken)
    return {
        name: (
            statistics.median(times[name]),
            statistics.median(
                a / b for a, b in zip(times[name], times[variant.against], strict=True)
            ),
        )
        for name, variant in variants.items()
    }
