"""No text twice in a batch: an example that would meet its double changes places with another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from .plan import Block, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

_ABSENT = -1
_BATCHES, _EXAMPLES = 64, 8  # tried per conflict: other batches, and examples in each


def separate(
    block: Block, sources: Sequence[Source], key: int, ranks: NDArray[np.int64] | None = None
) -> tuple[Block, int]:
    """The block with as few repeated texts in its batches as can be, and how many examples remain.

    An example repeats a text if its query or positive is a query or positive of an earlier example
    of the batch; positives of classification don't count, for they are labels. It changes places
    with an example of the same dataset in another batch where that makes no new repetition.
    Batches of near `ranks [t]` are tried first. Only repeated texts cost more than a sort.
    """
    batches, size = block.datasets.shape
    texts = _repeated(_texts(block, sources))
    pairs, conflicts = _conflicts(texts, batches, size)
    if not len(conflicts):
        return block, 0
    window = _Window(block, texts, pairs)
    left = 0
    for place in conflicts.tolist():
        order = _order(place, size, batches, key, ranks)
        left += window.repeats(place) and not window.move(place, order)
    return Block(block.datasets, window.examples.reshape(batches, size)), left


def _texts(block: Block, sources: Sequence[Source]) -> NDArray[np.int64]:
    """Hashes `[n, 2]` of the two texts of each example, ABSENT for one that does not count."""
    datasets, examples = block.datasets.ravel(), block.examples.ravel()
    texts = np.full((examples.size, 2), _ABSENT, np.int64)
    for dataset in np.flatnonzero(np.bincount(datasets)).tolist():
        source, here = sources[dataset], np.flatnonzero(datasets == dataset)
        if source.query_keys is None or source.positive_keys is None:
            raise ValueError(f"dataset {source.name} has no keys to find duplicates by")
        texts[here, 0] = source.query_keys[examples[here]]
        if source.task != "classification":
            texts[here, 1] = source.positive_keys[examples[here]]
    texts[texts[:, 0] == texts[:, 1], 1] = _ABSENT
    return texts


def _repeated(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Small numbers `[n, 2]` for texts that several examples have, ABSENT for all others."""
    flat = hashes.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    fresh = np.append(True, ordered[1:] != ordered[:-1])
    alone = fresh & np.append(fresh[1:], True)
    numbers = np.empty_like(flat)
    numbers[order] = np.where(alone | (ordered < 0), _ABSENT, fresh.cumsum())
    return numbers.reshape(hashes.shape)


def _conflicts(
    texts: NDArray[np.int64], batches: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted (text, batch) pairs as numbers, and the places that repeat a text of their batch."""
    entries = np.flatnonzero(texts.ravel() >= 0)
    pairs = texts.ravel()[entries] * batches + entries // (2 * size)
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    again = np.flatnonzero(pairs[1:] == pairs[:-1]) + 1
    return pairs, np.unique(entries[order][again] // 2)


def _order(
    place: int, size: int, batches: int, key: int, ranks: NDArray[np.int64] | None
) -> Iterator[tuple[int, int, int]]:
    """Other batches, the first to try first, and where among a batch's examples to begin.

    That is a random number, and the end to stay near: -1 for the first half, 1 for the last, 0 for
    all of them.
    """
    home = place // size
    drawn = (key ^ (place * 0x9E3779B97F4A7C15)) % 2**64
    if ranks is not None:  # neighbours in length, and in those the half that is nearer in length
        distance = np.abs(ranks - ranks[home])
        for batch in np.argsort(distance, kind="stable")[1 : _BATCHES + 1].tolist():
            yield batch, drawn >> 20, -1 if ranks[batch] > ranks[home] else 1
        return
    for turn in range(min(batches - 1, _BATCHES)):
        yield (home + 1 + (drawn + turn) % (batches - 1)) % batches, drawn >> 20, 0


class _Window:
    """The examples of a window in their places, and which texts each batch holds."""

    def __init__(self, block: Block, texts: NDArray[np.int64], pairs: NDArray[np.int64]) -> None:
        self._batches, self._size = block.datasets.shape
        self._datasets = block.datasets
        self.examples = block.examples.ravel().copy()
        self._texts: list[list[int]] = texts.tolist()
        self._pairs: list[int] = pairs.tolist()
        self._moved: dict[int, int] = {}

    def _count(self, text: int, batch: int) -> int:
        pair = text * self._batches + batch
        first = bisect_left(self._pairs, pair)
        before = bisect_right(self._pairs, pair, lo=first) - first
        return before + self._moved.get(pair, 0)

    def _repeated(self, place: int) -> list[int]:
        return [text for text in self._texts[place] if text >= 0]

    def repeats(self, place: int) -> bool:
        """Whether another example of the batch has a text of the one in this place."""
        home = place // self._size
        return any(self._count(text, home) > 1 for text in self._repeated(place))

    def move(self, place: int, order: Iterator[tuple[int, int, int]]) -> bool:
        """Let the example change places with one of its dataset; False where there is none."""
        home, offset = divmod(place, self._size)
        dataset, mine = self._datasets[home, offset], self._repeated(place)
        for batch, begin, end in order:
            if any(self._count(text, batch) for text in mine):
                continue
            first, last = np.searchsorted(self._datasets[batch], (dataset, dataset + 1)).tolist()
            half = (first + last) // 2
            first, last = (first if end < 1 else half), (last if end > -1 else max(half, first + 1))
            for step in range(min(_EXAMPLES, last - first)):
                other = batch * self._size + first + (begin + step) % (last - first)
                theirs = self._repeated(other)
                if not any(self._count(text, home) for text in theirs):
                    self._swap(place, mine, home, other, theirs, batch)
                    return True
        return False

    def _swap(
        self, place: int, mine: list[int], home: int, other: int, theirs: list[int], batch: int
    ) -> None:
        self.examples[[place, other]] = self.examples[[other, place]]
        self._texts[place], self._texts[other] = self._texts[other], self._texts[place]
        for texts, source, target in ((mine, home, batch), (theirs, batch, home)):
            for text in texts:
                for where, change in ((source, -1), (target, 1)):
                    pair = text * self._batches + where
                    self._moved[pair] = self._moved.get(pair, 0) + change
