"""Views of vectors that are read, chosen and normalised tile by tile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from .search import Vectors


STEP = 65_536  # rows whose lengths are taken at a time


@dataclass(frozen=True)
class Normalised:
    """Rows of length 1 (zero rows stay zero), in float32."""

    base: Vectors

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""
        return self.base.shape

    @cached_property
    def factors(self) -> NDArray[np.float32]:
        """What each row is multiplied by, `[n]`; taken once, since rows are read many times."""
        factors = np.empty(self.shape[0], np.float32)
        for begin in range(0, len(factors), STEP):
            rows = np.asarray(self.base[begin : begin + STEP], np.float32)
            norms = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
            factors[begin : begin + STEP] = 1 / np.where(norms > 0, norms, 1)
        return factors

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        rows = np.asarray(self.base[index], np.float32)
        # Rows that were chosen by number are a copy already.
        into = rows if isinstance(index, np.ndarray) and rows.flags.writeable else None
        return np.asarray(np.multiply(rows, self.factors[index][:, None], out=into))


@dataclass(frozen=True)
class Subset:
    """Some rows, in the order of `rows [n]`."""

    base: Vectors
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""
        return (len(self.rows), *self.base.shape[1:])

    def __getitem__(self, index: Any) -> NDArray[np.floating[Any]]:
        return self.base[self.rows[index]]


@dataclass(frozen=True)
class Mean:
    """Side by side, so that the dot product is the mean of those of the parts."""

    parts: Sequence[Vectors]

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""
        return (self.parts[0].shape[0], sum(part.shape[1] for part in self.parts))

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        rows = [np.asarray(part[index], np.float32) for part in self.parts]
        return np.concatenate(rows, 1) / np.float32(len(rows) ** 0.5)
