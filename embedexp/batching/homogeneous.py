"""Each batch comes from one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .interleaving import Interleaving
from .permutation import key_of
from .plan import Arrange, Batches, Block, Rows, Source, Streams, as_drawn, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedexp.config.schema.batching import Homogeneous


class OneDataset:
    """Batch after batch of one dataset."""

    def __init__(self, streams: Streams, dataset: int, size: int) -> None:
        self.name, self.size = streams.sources[dataset].name, size
        self.together = together(size)
        self.sources = streams.sources
        self._streams, self._dataset = streams, dataset

    def __call__(self, turns: NDArray[np.int64]) -> Block:
        """Batches number `turns [t]`."""
        draws = turns[:, None] * self.size + np.arange(self.size)
        examples = self._streams.examples(self._dataset, draws.ravel()).reshape(draws.shape)
        return Block(np.full_like(draws, self._dataset), examples)


class HomogeneousPlan:
    """Datasets take turns in proportion to their weights; each fills whole batches."""

    def __init__(
        self, sources: Sequence[Source], size: int, seed: int, arrange: Arrange = as_drawn
    ) -> None:
        streams = Streams(sources, seed)
        self._batches = [
            Batches(arrange(OneDataset(streams, dataset, size), seed))
            for dataset in range(len(sources))
        ]
        names = [source.name for source in sources]
        key = key_of(seed, "datasets", *names)
        self._turns = Interleaving([source.weight for source in sources], key)

    def __call__(self, step: int) -> list[Rows]:
        """The one dataset of this step and its examples."""
        dataset, turn = self._turns.at(step)
        return self._batches[dataset](turn)


def build(
    option: Homogeneous, sources: Sequence[Source], seed: int, arrange: Arrange = as_drawn
) -> HomogeneousPlan:
    """The plan of `batching=homogeneous`."""
    return HomogeneousPlan(sources, option.size, seed, arrange)
