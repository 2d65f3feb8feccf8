"""Documents in a row, cut into blocks of equal length: what language models are trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Blocks:
    """The tokens `flat [t]` of n documents as blocks of `size` tokens, of which the last is short.

    Document i is `flat[offsets[i]:offsets[i + 1]]`; the first starts at `offsets[0]`, so that one
    store may hold several datasets. No token is lost or repeated: a document that crosses the end
    of a block goes on in the next one. With `joined`, a block is one sequence, in which attention
    crosses documents; else each document in it, or part of one, is a sequence of its own.
    """

    flat: NDArray[np.int32]
    offsets: NDArray[np.int64]
    size: int
    joined: bool

    def __len__(self) -> int:
        return -(-self.tokens // self.size)

    @property
    def tokens(self) -> int:
        """Tokens of all blocks."""
        return int(self.offsets[-1] - self.offsets[0])

    def bounds(self, block: int) -> NDArray[np.int64]:
        """Where the sequences of a block start in `flat`, and where the last one ends, `[n+1]`."""
        start = int(self.offsets[0]) + block * self.size
        end = min(start + self.size, int(self.offsets[-1]))
        if self.joined:
            return np.array([start, end])
        first = int(np.searchsorted(self.offsets, start, side="right"))
        last = int(np.searchsorted(self.offsets, end, side="left"))
        inside = np.unique(self.offsets[first:last])  # an empty document starts where the next does
        return np.concatenate([[start], inside, [end]]).astype(np.int64)

    def __getitem__(self, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens `[l]` of a block and the lengths `[n]` of its sequences."""
        bounds = self.bounds(block)
        return self.flat[bounds[0] : bounds[-1]].astype(np.int64), np.diff(bounds)
