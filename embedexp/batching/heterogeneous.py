"""Each batch mixes the datasets in proportion to their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .interleaving import Interleaving
from .permutation import key_of
from .plan import Rows, Source, Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config.schema.batching import Heterogeneous


class HeterogeneousPlan:
    """The places of a batch are dealt to the datasets in proportion to their weights."""

    def __init__(self, sources: Sequence[Source], size: int, seed: int) -> None:
        self._streams, self._size = Streams(sources, seed), size
        names = [source.name for source in sources]
        key = key_of(seed, "places", *names)
        self._places = Interleaving([source.weight for source in sources], key)

    def __call__(self, step: int) -> list[Rows]:
        """One entry per dataset that this step draws from."""
        datasets, draws = self._places(step * self._size + np.arange(self._size))
        return [
            self._streams.rows(int(dataset), draws[datasets == dataset])
            for dataset in np.unique(datasets)
        ]


def build(option: Heterogeneous, sources: Sequence[Source], seed: int) -> HeterogeneousPlan:
    """The plan of `batching=heterogeneous`."""
    return HeterogeneousPlan(sources, option.size, seed)
