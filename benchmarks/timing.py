"""Timing in turns, so that a noisy machine is as noisy for everybody who is compared; and rows.

A row is one comparison of the table that `python benchmarks` makes; each benchmark writes its rows
with `--json FILE`.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping, Sequence

WARM_UPS = 2
FEWEST_TURNS = 3


class Variant(NamedTuple):
    """What is timed, and the name of the variant that it is compared with."""

    run: Callable[[], None]
    against: str


class Taken(NamedTuple):
    """What a variant took: median milliseconds, and its ratio to its peer in each turn."""

    milliseconds: float
    ratios: list[float]

    @property
    def ratio(self) -> float:
        """The median over turns."""
        return statistics.median(self.ratios)


def measure(run: Callable[[], None], device: str) -> float:
    """Milliseconds of one call: CPU time on a CPU, wall time elsewhere."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    synchronise(device)
    begin = clock()
    run()
    synchronise(device)
    return 1e3 * (clock() - begin)


def synchronise(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def compare(
    variants: Mapping[str, Variant], device: str, repeats: int, seconds: float | None = None
) -> dict[str, Taken]:
    """Time each variant in `repeats` turns, after warming up; fewer once `seconds` are over."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    begin = time.perf_counter()
    for turn in range(repeats + WARM_UPS):
        over = seconds is not None and time.perf_counter() - begin > seconds
        if over and turn >= min(repeats, FEWEST_TURNS) + WARM_UPS:
            break
        for name, variant in variants.items():
            taken = measure(variant.run, device)
            if turn >= WARM_UPS:
                times[name].append(taken)
    return {
        name: Taken(
            statistics.median(times[name]),
            [a / b for a, b in zip(times[name], times[variant.against], strict=True)],
        )
        for name, variant in variants.items()
    }


class Row(NamedTuple):
    """One comparison: what was measured against whom, a value for each turn, and the target.

    Values are ratios (`unit` "x") or in a unit; a target is at `most` or at `least` so much, or
    there is none. Without a `peer` the limit is an absolute one.
    """

    name: str
    peer: str
    values: Sequence[float]
    unit: str = "x"
    most: float | None = None
    least: float | None = None

    def facts(self) -> dict[str, Any]:
        """As JSON: with the median, the spread, and whether the median meets the target."""
        median = statistics.median(self.values)
        met = None
        if self.most is not None or self.least is not None:
            met = (self.most is None or median <= self.most) and (
                self.least is None or median >= self.least
            )
        own = self._asdict() | {"values": [float(value) for value in self.values]}
        return (
            own
            | {"median": median, "low": min(self.values), "high": max(self.values)}
            | {"met": met}
        )


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option that `write` is for."""
    parser.add_argument("--json", type=Path, help="also write the comparisons into this file")


def write(path: Path | None, rows: Iterable[Row]) -> None:
    """Write rows as JSON, if a file is wanted."""
    if path is not None:
        text = json.dumps([row.facts() for row in rows], indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def step_ends(overrides: Sequence[str]) -> list[float]:
    """Processor time at the end of each step of a run of ours, everything around it included."""
    import embedexp
    from embedexp.training.recording import Recording

    ends: list[float] = []
    record = Recording.on_train_batch_end

    def timed(self: Recording, *values: Any, **named: Any) -> None:
        record(self, *values, **named)
        ends.append(time.process_time())

    Recording.on_train_batch_end = timed  # type: ignore[method-assign]
    embedexp.run(embedexp.compose(list(overrides)), quiet=True)
    return ends
