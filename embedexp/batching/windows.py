"""Examples change places within a window of batches: apart from their duplicates, or by length."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .duplicates import separate
from .permutation import key_of, permute
from .plan import Arrange, Block, Source, Strand, as_drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_SHORT, _LONG = 4_096, 65_536  # examples of a window
_MANY = 16  # batches, where that many fit into a long window
log = logging.getLogger(__name__)


def batches_per_window(size: int) -> int:
    """Batches of `size` examples in a window of 4,096 to 65,536 examples, at least two."""
    return max(2, min(max(_SHORT // size, _MANY), _LONG // size))


class Windows:
    """The batches of a strand, the examples of each window dealt anew.

    The datasets of each batch and the examples of each window stay what they are. Whatever step is
    asked for, one window is looked at and no more, so that the price of a step is constant.
    """

    def __init__(
        self, strand: Strand, seed: int, *, no_duplicates: bool = False, bucketed: bool = False
    ) -> None:
        self.name, self.size, self.sources = strand.name, strand.size, strand.sources
        self._strand, self._seed = strand, seed
        self._no_duplicates, self._bucketed = no_duplicates, bucketed
        self.together = batches_per_window(strand.size)
        self._told = False

    def __call__(self, turns: NDArray[np.int64]) -> Block:
        """Batches number `turns [t]`."""
        windows, places = np.divmod(turns, self.together)
        numbers, rows = np.unique(windows, return_inverse=True)
        blocks = [self._arranged(number) for number in numbers.tolist()]
        datasets, examples = (np.stack(part) for part in zip(*blocks, strict=True))
        return Block(datasets[rows, places], examples[rows, places])

    def _arranged(self, number: int) -> Block:
        block = self._strand(number * self.together + np.arange(self.together))
        key = key_of(self._seed, "window", self.name, number)
        ranks = None
        if self._bucketed:
            ranks = permute(np.arange(self.together), self.together, key)
            block = bucketed(block, self.sources, ranks)
        if self._no_duplicates:
            block, left = separate(block, self.sources, key, ranks)
            if left and not self._told:
                self._told = True
                log.info(
                    "%d of %d examples meet a duplicate that no other batch can take; "
                    "the loss masks it",
                    left,
                    block.examples.size,
                )
        return block


def bucketed(block: Block, sources: Sequence[Source], ranks: NDArray[np.int64]) -> Block:
    """The block with examples of like length together: the batch of rank 0 gets the shortest.

    That holds for each dataset apart, so that a batch which mixes datasets is short in all of them.
    What a window draws of a dataset for the second time, in its next epoch, comes behind all that
    it draws for the first time: an example is as long as itself, and would meet itself otherwise.
    """
    datasets = block.datasets.ravel()
    batches = np.arange(datasets.size) // block.datasets.shape[1]
    before, examples = block.examples.ravel(), np.empty_like(block.examples.ravel())
    for dataset in np.flatnonzero(np.bincount(datasets)).tolist():
        places = np.flatnonzero(datasets == dataset)
        lengths = sources[dataset].lengths
        if lengths is None:
            raise ValueError(f"dataset {sources[dataset].name} has no lengths to sort by")
        places_by_rank = places[np.argsort(ranks[batches[places]], kind="stable")]
        drawn = before[places]
        by_length = np.lexsort((lengths[drawn], _times_before(drawn)))
        examples[places_by_rank] = drawn[by_length]
    return Block(block.datasets, examples.reshape(block.examples.shape))


def _times_before(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each of `values [n]` stands before its place already, `[n]`."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    places = np.arange(len(values))
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    times = np.empty_like(places)
    times[order] = places - np.maximum.accumulate(np.where(fresh, places, 0))
    return times


def arrangement(option: Any) -> Arrange:
    """How a `batching` option deals the examples of a strand to its batches."""
    by_length = option.lengths == "bucketed"
    if not by_length and not option.no_duplicates:
        return as_drawn
    return partial(Windows, no_duplicates=option.no_duplicates, bucketed=by_length)
