"""InfoNCE of a large batch: processor time and memory against the naive form and torch's own.

    python benchmarks/infonce.py [--sizes 4096 16384] [--width 768] [--repeats 3] [--tiny]

Value and gradients, other positives in the denominator, float32. Each variant runs in a process of
its own: the peak of its resident memory over a run, less what embeddings, their gradients and
everything imported need, is what the loss itself needs. Times are those of variants in turns.
`keys` compares the ids of texts too, a few of which are equal; `both` has both directions.
torch's `linear_cross_entropy` gets normalised vectors and can mask nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from timing import Row, Variant, add_json, compare, write
from torch import nn
from torch.nn import functional as F

from embedexp.loss import info_nce
from embedexp.loss.infonce import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

TEMPERATURE = 0.02
TARGET = 110
"""MiB beyond embeddings and gradients at 16,384 x 16,384 and width 768."""

TIME = 0.85
"""Times that the naive form takes there, at most."""


def naive(queries: Tensor, positives: Tensor, _: Tensor) -> Tensor:
    """The whole matrix, and autograd."""
    scores = F.normalize(queries, dim=1) @ F.normalize(positives, dim=1).T / TEMPERATURE
    return F.cross_entropy(scores, torch.arange(len(queries), device=scores.device))


def naive_keys(queries: Tensor, positives: Tensor, keys: Tensor) -> Tensor:
    """The whole matrix, without rows and columns of equal keys."""
    scores = F.normalize(queries, dim=1) @ F.normalize(positives, dim=1).T / TEMPERATURE
    same = keys[:, None] == keys[None, :]
    same.fill_diagonal_(False)
    scores = scores.masked_fill(same, float("-inf"))
    return F.cross_entropy(scores, torch.arange(len(queries), device=scores.device))


def naive_both(queries: Tensor, positives: Tensor, _: Tensor) -> Tensor:
    """The whole matrix, by rows and by columns."""
    scores = F.normalize(queries, dim=1) @ F.normalize(positives, dim=1).T / TEMPERATURE
    labels = torch.arange(len(queries), device=scores.device)
    return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2


def chunked(queries: Tensor, positives: Tensor, _: Tensor) -> Tensor:
    """Torch's chunked form of the first."""
    labels = torch.arange(len(queries), device=queries.device)
    rows, options = F.normalize(queries, dim=1) / TEMPERATURE, nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(rows, F.normalize(positives, dim=1), labels, options=options)


def ours(queries: Tensor, positives: Tensor, _: Tensor) -> Tensor:
    """Other positives."""
    return info_nce(queries, positives, temperature=TEMPERATURE, denominator=["other_positives"])


def ours_keys(queries: Tensor, positives: Tensor, keys: Tensor) -> Tensor:
    """Other positives without those of equal keys."""
    return info_nce(
        queries,
        positives,
        temperature=TEMPERATURE,
        denominator=["other_positives"],
        positive_ids=keys,
    )


def ours_both(queries: Tensor, positives: Tensor, _: Tensor) -> Tensor:
    """Both directions."""
    return info_nce(
        queries,
        positives,
        temperature=TEMPERATURE,
        denominator=["other_positives"],
        directions=DIRECTIONS,
    )


LOSSES: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], str]] = {
    "naive": (naive, "naive"),
    "embedexp": (ours, "naive"),
    "linear_cross_entropy": (chunked, "naive"),
    "naive, keys": (naive_keys, "naive, keys"),
    "embedexp, keys": (ours_keys, "naive, keys"),
    "naive, both": (naive_both, "naive, both"),
    "embedexp, both": (ours_both, "naive, both"),
}
if not hasattr(nn, "LinearCrossEntropyOptions"):  # new in torch 2.13
    del LOSSES["linear_cross_entropy"]


def inputs(size: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, positives that resemble them, and keys of which one in a hundred is not alone."""
    queries = torch.randn(size, width)
    positives = torch.randn(size, width).mul_(2).add_(queries)
    keys = torch.arange(size)
    keys[: size // 100] = keys[-(size // 100) - 1 : -1]
    return queries.requires_grad_(), positives.requires_grad_(), keys


def step(name: str, size: int, width: int) -> Callable[[], None]:
    """Value and gradients."""
    queries, positives, keys = inputs(size, width)

    def run() -> None:
        queries.grad = positives.grad = None
        LOSSES[name][0](queries, positives, keys).backward()

    return run


def memory(name: str, size: int, width: int) -> float:
    """MiB beyond the embeddings and their gradients, in this process, which must be a fresh one."""
    step(name, 64, width)()
    run = step(name, size, width)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew (Linux)
    before = peak()
    run()
    return peak() - before - 2 * size * width * 4 / 2**20


def peak() -> float:
    """Largest resident memory so far, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def memory_apart(name: str, size: int, width: int) -> float:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--memory", name, "--sizes", str(size)]
    command += ["--width", str(width), "--threads", str(torch.get_num_threads())]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(found.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", choices=list(LOSSES), help="measure the memory of one only")
    parser.add_argument("--tiny", action="store_true", help="check that it runs: no real figures")
    add_json(parser)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    if given.memory:
        print(memory(given.memory, given.sizes[0], given.width))
        return
    sizes, width, repeats = given.sizes, given.width, given.repeats
    if given.tiny:
        sizes, width, repeats = [256], 32, 1
        for name in [name for name in LOSSES if name not in ("naive", "embedexp")]:
            del LOSSES[name]
    rows = []
    print(f"width {width}, float32, {given.threads} threads; target: {TARGET} MiB at 16,384")
    print(f"{'pairs':>6}  {'loss':22} {'ms':>9} {'/ naive':>8} {'MiB':>8}")
    for size in sizes:
        steps = {name: Variant(step(name, size, width), to) for name, (_, to) in LOSSES.items()}
        for name, taken in compare(steps, "cpu", repeats).items():
            extra, times = memory_apart(name, size, width), taken.milliseconds
            print(f"{size:>6}  {name:22} {times:9.1f} {taken.ratio:8.2f} {extra:8.0f}", flush=True)
            own, large = name.startswith("embedexp"), size == 16384
            peer, what = LOSSES[name][1], f"{name}, {size:,} pairs"
            if name != peer:
                most = TIME if own and large else None
                rows.append(Row(what, peer, taken.ratios, most=most))
                most = TARGET if own and large else None
                rows.append(Row(f"{what}, memory", "", [extra], "MiB", most=most))
    write(given.json, rows)


if __name__ == "__main__":
    main()
