"""How `gpu.py` checks, times and reports: sizes by card, time by part, and what was found."""

from __future__ import annotations

import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import gpu_models
import torch
from timing import Row, Taken, Variant, compare, synchronise, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from torch import Tensor


class Sizes(NamedTuple):
    """How large everything is."""

    matrix: int
    encoder: list[str]
    pairs: int
    longest: int
    llama: list[str]
    llama_lengths: int
    llama_sequences: int
    attention: tuple[int, int, int]  # sequences, heads, width of a head
    experts: tuple[int, int, int]  # tokens, width, inner width
    infonce: tuple[int, ...]  # the first for which the naive form has room is its peer's
    width: int


def sizes_for(device: str, *, tiny: bool) -> Sizes:
    """Those of a card of 24 GiB, larger where there is room; or no real ones."""
    if tiny:
        llama, encoder = gpu_models.TINY_LLAMA, gpu_models.TINY_ENCODER
        return Sizes(64, encoder, 4, 24, llama, 16, 4, (3, 2, 16), (48, 32, 64), (96,), 16)
    gib = torch.cuda.get_device_properties(device).total_memory / 2**30
    return Sizes(
        matrix=8192,
        encoder=gpu_models.ENCODER,
        pairs=min(256, max(16, int(1.2 * gib))),  # padded, a pair keeps about 0.5 GiB
        longest=512,
        llama=gpu_models.LLAMA,
        llama_lengths=512,
        llama_sequences=min(32, max(4, int(0.3 * gib))),  # each keeps about 1 GiB
        attention=(128, 12, 64),
        experts=(16384, 768, 3072),
        infonce=(65536, 32768, 16384),
        width=768,
    )


class Bench:
    """What parts share: the device, the time, the measured rate, and what they found."""

    def __init__(self, device: str, sizes: Sizes, seconds: float, file: Path | None) -> None:
        self.device, self.sizes, self.file = device, sizes, file
        self.on_gpu = device != "cpu"
        self.end = time.perf_counter() + seconds
        self.left = 1  # parts to come, with this one
        self.rate: float | None = None
        self.rows: list[Row] = []
        self.problems: list[str] = []

    def row(self, row: Row) -> None:
        """Print a figure and keep it."""
        facts = row.facts()
        target = ""
        if facts["met"] is not None:
            sign = "at most" if row.most is not None else "at least"
            limit = row.most if row.most is not None else row.least
            target = f"  ({sign} {limit:g}: {'met' if facts['met'] else 'MISSED'})"
        spread = f"[{facts['low']:.3g}, {facts['high']:.3g}]" if len(row.values) > 1 else ""
        peer = f" / {row.peer}" if row.peer else ""
        print(f"  {row.name}{peer}: {facts['median']:.3g} {row.unit} {spread}{target}", flush=True)
        self.rows.append(row)
        write(self.file, self.rows)

    def check(self, name: str, fast: Tensor, plain: Tensor, limit: float) -> None:
        """Whether a fast path equals its plain twin."""
        plain = plain.detach().double()
        apart = float((fast.detach().double() - plain).norm() / plain.norm())
        good = apart <= limit  # not a number is not good
        print(f"  {'equal' if good else 'FAILED'}: {name}, {apart:.1e} (at most {limit:g})")
        if not good:
            self.problems.append(f"{name} differs by {apart:.1e}")

    def time(self, variants: Mapping[str, Variant], share: float = 1.0) -> dict[str, Taken]:
        """Times in turns, within a `share` of this part's part of the time that is left."""
        seconds = share * max(1.0, self.end - time.perf_counter()) / (2 * self.left)
        return compare(variants, self.device, 20 if self.on_gpu else 1, seconds)

    def memory(self, run: Callable[[], None]) -> float | None:
        """The peak of a call's memory beyond what was held before, in MiB; None on a CPU."""
        if not self.on_gpu:
            return None
        synchronise(self.device)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        synchronise(self.device)
        return (torch.cuda.max_memory_allocated() - before) / 2**20

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        """Print what goes wrong inside, count it, and go on."""
        try:
            yield
        except torch.OutOfMemoryError:
            print(f"  FAILED: {name}: out of memory", flush=True)
            self.problems.append(f"{name} ran out of memory")
        except Exception as error:
            traceback.print_exc()
            first = (str(error).splitlines() or [""])[0]
            print(f"  FAILED: {name}: {type(error).__name__}: {first}", flush=True)
            self.problems.append(f"{name} failed")
        if self.on_gpu:
            torch.cuda.empty_cache()
