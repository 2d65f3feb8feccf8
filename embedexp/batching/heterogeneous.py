"""Each batch mixes the datasets in proportion to their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .interleaving import Interleaving
from .permutation import key_of
from .plan import Arrange, Batches, Block, Rows, Source, Streams, as_drawn, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedexp.config.schema.batching import Heterogeneous


class MixedDatasets:
    """Batch after batch whose places are dealt to the datasets by weight."""

    def __init__(self, sources: Sequence[Source], size: int, seed: int) -> None:
        self._streams, self.size, self.sources = Streams(sources, seed), size, sources
        self.together = together(size)
        names = [source.name for source in sources]
        self.name = "\x1e".join(names)
        key = key_of(seed, "places", *names)
        self._places = Interleaving([source.weight for source in sources], key)

    def __call__(self, turns: NDArray[np.int64]) -> Block:
        """Batches number `turns [t]`."""
        places = turns[:, None] * self.size + np.arange(self.size)
        datasets, draws = self._places(places.ravel())
        examples = np.empty_like(draws)
        for dataset in np.flatnonzero(np.bincount(datasets)).tolist():
            here = datasets == dataset
            examples[here] = self._streams.examples(dataset, draws[here])
        datasets, examples = datasets.reshape(places.shape), examples.reshape(places.shape)
        order = np.argsort(datasets, axis=1, kind="stable")
        return Block(
            np.take_along_axis(datasets, order, axis=1), np.take_along_axis(examples, order, axis=1)
        )


class HeterogeneousPlan:
    """The places of a batch are dealt to the datasets in proportion to their weights."""

    def __init__(
        self, sources: Sequence[Source], size: int, seed: int, arrange: Arrange = as_drawn
    ) -> None:
        self._batches = Batches(arrange(MixedDatasets(sources, size, seed), seed))

    def __call__(self, step: int) -> list[Rows]:
        """One entry per dataset that this step draws from."""
        return self._batches(step)


def build(
    option: Heterogeneous, sources: Sequence[Source], seed: int, arrange: Arrange = as_drawn
) -> HeterogeneousPlan:
    """The plan of `batching=heterogeneous`."""
    return HeterogeneousPlan(sources, option.size, seed, arrange)
