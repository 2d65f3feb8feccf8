"""The plan of a training run: which examples meet at a step, as a function of (seed, step)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from .permutation import key_of, permute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_TOGETHER = 4096  # examples drawn at a time: for 64 of them, numpy's calls take as long as for all


@dataclass(frozen=True)
class Source:
    """What a plan needs to know of a dataset of N examples.

    `query_keys [N]` and `positive_keys [N]` are hashes of the texts, `lengths [N]` the tokens of
    each example; they are needed only where batches are arranged by them.
    """

    name: str
    task: str
    size: int
    weight: float
    language: str = ""
    query_keys: NDArray[np.int64] | None = None
    positive_keys: NDArray[np.int64] | None = None
    lengths: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Rows:
    """Examples of one dataset in a batch: `examples [m]` are indices into it."""

    task: str
    dataset: int
    examples: NDArray[np.int64]


class BatchPlan(Protocol):
    """A pure function of the step: the same in every process, O(1) in the step."""

    def __call__(self, step: int) -> list[Rows]:
        """The examples of step `step` (0-based), over all devices."""
        ...


class Block(NamedTuple):
    """t consecutive batches of a strand: the dataset of each place, and its example there.

    Both are `[t, size]`; the places of a batch are in the order of their datasets.
    """

    datasets: NDArray[np.int64]
    examples: NDArray[np.int64]


class Strand(Protocol):
    """Batches of one kind in a row: those of one dataset, or those that mix the same datasets."""

    @property
    def name(self) -> str:
        """What tells the strand from others of the plan."""
        ...

    @property
    def size(self) -> int:
        """Examples of a batch."""
        ...

    @property
    def together(self) -> int:
        """How many batches are best drawn at a time."""
        ...

    @property
    def sources(self) -> Sequence[Source]:
        """The datasets that a block's numbers mean."""
        ...

    def __call__(self, turns: NDArray[np.int64]) -> Block:
        """Batches number `turns [t]` of the strand."""
        ...


class Arrange(Protocol):
    """How the examples of a strand are dealt to its batches."""

    def __call__(self, strand: Strand, seed: int) -> Strand:
        """A strand of the same batches, in which examples may have changed places."""
        ...


def as_drawn(strand: Strand, seed: int) -> Strand:
    """Batches hold the examples as they are drawn."""
    del seed
    return strand


class Streams:
    """Each dataset as an endless stream: epoch after epoch, each freshly shuffled."""

    def __init__(self, sources: Sequence[Source], seed: int) -> None:
        if not sources:
            raise ValueError("no dataset to draw from")
        self.sources, self.seed = tuple(sources), seed

    def examples(self, dataset: int, draws: NDArray[np.int64]) -> NDArray[np.int64]:
        """Examples `[m]` at consecutive places `draws [m]` of a dataset's stream, in any order."""
        source = self.sources[dataset]
        epochs, offsets = np.divmod(draws, source.size)
        first, last = int(epochs.min()), int(epochs.max())
        keys = [
            key_of(self.seed, "examples", source.name, epoch) for epoch in range(first, last + 1)
        ]
        key = np.array(keys, np.uint64)[epochs - first] if len(keys) > 1 else keys[0]
        return permute(offsets, source.size, key)


def together(size: int) -> int:
    """How many batches of `size` examples take hardly longer than one to draw."""
    return max(1, _TOGETHER // size)


class Batches:
    """The batches of a strand, one by one; as many are drawn at a time as suit the strand."""

    def __init__(self, strand: Strand) -> None:
        self._strand = strand
        self._drawn: tuple[int, Block] | None = None  # the first turn of those drawn last

    def __call__(self, turn: int) -> list[Rows]:
        """Batch number `turn`, one entry per dataset."""
        many = self._strand.together
        first = turn - turn % many
        if self._drawn is None or self._drawn[0] != first:
            self._drawn = first, self._strand(np.arange(first, first + many))
        datasets, examples = (part[turn - first] for part in self._drawn[1])
        starts = np.flatnonzero(np.diff(datasets, prepend=-1))
        parts = np.split(examples, starts[1:])
        sources = self._strand.sources
        return [
            Rows(sources[dataset].task, dataset, part)
            for dataset, part in zip(datasets[starts].tolist(), parts, strict=True)
        ]
