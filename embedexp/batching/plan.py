"""The plan of a training run: which examples meet at a step, as a function of (seed, step)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from .permutation import key_of, permute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """What a plan needs to know of a dataset."""

    name: str
    task: str
    size: int
    weight: float


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


class Streams:
    """Each dataset as an endless stream: epoch after epoch, each freshly shuffled."""

    def __init__(self, sources: Sequence[Source], seed: int) -> None:
        if not sources:
            raise ValueError("no dataset to draw from")
        self.sources, self.seed = tuple(sources), seed

    def rows(self, dataset: int, draws: NDArray[np.int64]) -> Rows:
        """Draws number `draws [m]` of a dataset's stream."""
        source = self.sources[dataset]
        epochs, offsets = np.divmod(draws, source.size)
        examples = np.empty_like(offsets)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            key = key_of(self.seed, "examples", source.name, int(epoch))
            examples[here] = permute(offsets[here], source.size, key)
        return Rows(source.task, dataset, examples)
