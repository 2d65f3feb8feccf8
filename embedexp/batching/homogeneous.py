"""Each batch comes from one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .interleaving import Interleaving
from .permutation import key_of
from .plan import Rows, Source, Streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config.schema.batching import Homogeneous


class HomogeneousPlan:
    """Datasets take turns in proportion to their weights; each fills whole batches."""

    def __init__(self, sources: Sequence[Source], size: int, seed: int) -> None:
        self._streams, self._size = Streams(sources, seed), size
        names = [source.name for source in sources]
        key = key_of(seed, "datasets", *names)
        self._turns = Interleaving([source.weight for source in sources], key)

    def __call__(self, step: int) -> list[Rows]:
        """The one dataset of this step and its examples."""
        (dataset,), (turn,) = self._turns(np.array([step]))
        return [self._streams.rows(int(dataset), turn * self._size + np.arange(self._size))]


def build(option: Homogeneous, sources: Sequence[Source], seed: int) -> HomogeneousPlan:
    """The plan of `batching=homogeneous`."""
    return HomogeneousPlan(sources, option.size, seed)
