"""Dot products of many queries and documents, with a bound of what they can be wrong by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

SPARE = 8
"""Candidates kept beyond those asked for: room for what float32 puts in the wrong order."""
SMALLEST = 2.0**-126
"""What a matrix unit may take for zero is smaller."""


class Product(Protocol):
    """Scores of queries `[b, d]` and of one tile of documents after the other."""

    given: NDArray[np.float32]
    """The queries."""
    spare: int
    """Candidates kept beyond those asked for."""

    def take(self, documents: NDArray[np.float32]) -> None:
        """Documents `[t, d]` that are compared from now on; raises `UserError` if not finite."""

    def scores(self, part: slice, into: NDArray[np.float32]) -> None:
        """Of some queries and the documents that were taken last, `[p, t]`."""

    def error(self) -> NDArray[np.float64]:
        """What scores of a query and any documents so far are at most wrong by, `[b]`."""


class Single:
    """In float32."""

    spare = SPARE

    def __init__(self, queries: NDArray[np.float32]) -> None:
        length(queries, "queries")
        self.given, self.longest = queries, 0.0
        self.documents = queries[:0]

    def take(self, documents: NDArray[np.float32]) -> None:
        """Documents `[t, d]`."""
        self.longest = max(self.longest, length(documents, "documents"))
        self.documents = documents

    def scores(self, part: slice, into: NDArray[np.float32]) -> None:
        """Scores `[p, t]`."""
        np.matmul(self.given[part], self.documents.T, out=into)

    def error(self) -> NDArray[np.float64]:
        """Of summing in float32, in any order."""
        return rounding(self.given.shape[1]) * lengths(self.given) * self.longest


class Half:
    """Of vectors rounded to bfloat16, summed in float32: what a processor's matrix unit does.

    With lengths of 1 the bound is about 0.003, by what was in fact lost in rounding.
    """

    spare = 4 * SPARE

    def __init__(self, queries: NDArray[np.float32]) -> None:
        import torch

        length(queries, "queries")
        self.given, self.torch = queries, torch
        self.queries, self.lost = self._rounded(queries)
        self.documents = self.queries[:0]
        self.longest = self.most = 0.0

    def _rounded(self, vectors: NDArray[np.float32]) -> tuple[Any, NDArray[np.float64]]:
        """Vectors that bfloat16 holds, in float32, and how far each is from what it was."""
        given = self.torch.from_numpy(np.ascontiguousarray(vectors))
        found = given.bfloat16().float()
        return found, lengths((given - found).numpy())

    def take(self, documents: NDArray[np.float32]) -> None:
        """Documents `[t, d]`."""
        self.longest = max(self.longest, length(documents, "documents"))
        self.documents, lost = self._rounded(documents)
        self.most = max(self.most, float(lost.max(initial=0.0)))

    def scores(self, part: slice, into: NDArray[np.float32]) -> None:
        """Scores `[p, t]`."""
        matmul: Any = self.torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
        before, matmul.fp32_precision = matmul.fp32_precision, "bf16"
        try:
            self.torch.mm(self.queries[part], self.documents.T, out=self.torch.from_numpy(into))
        finally:
            matmul.fp32_precision = before

    def error(self) -> NDArray[np.float64]:
        """Of rounding each side, of summing, and of what the unit takes for zero."""
        d = self.given.shape[1]
        rounded = lengths(self.queries.numpy())
        longest = self.longest + self.most
        summed = rounding(d) * rounded * longest + d * SMALLEST * (1 + rounded + longest)
        # Differences and lengths were rounded themselves, by a part of what is added here.
        parts = (self.lost * self.longest + rounded * self.most) * (1 + rounding(d))
        return np.asarray(parts + summed)


def has_matrix_unit() -> bool:
    """Whether this processor has instructions for bfloat16."""
    import torch

    asked = getattr(torch.cpu, "get_capabilities", None)  # not in every torch that may be here
    able: Mapping[str, Any] = {} if asked is None else asked()
    return bool(able.get("amx_bf16") or able.get("avx512_bf16"))


def rounding(d: int) -> float:
    """Of a float32 dot product of unit vectors, in whatever order it is summed (and of those)."""
    return float((d + 2) * 2.0**-24 * 1.01)


def dots(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Row by row, `[p]`; equal rows give equal sums, wherever they stand."""
    return np.asarray(np.einsum("pd,pd->p", left, right, dtype=np.float64))


def lengths(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Row by row, `[p]`."""
    return np.sqrt(dots(vectors, vectors))


def length(vectors: NDArray[np.float32], what: str) -> float:
    """Not below that of the longest vector; raises `UserError` if one is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.einsum("nd,nd->n", vectors, vectors).max(initial=0.0))
    if 1e-20 < square < 1e30:  # where float32 neither loses small squares nor overflows
        return float(np.sqrt(square * (1 + rounding(vectors.shape[1]))))
    longest = float(lengths(vectors).max(initial=0.0))
    if not np.isfinite(longest):
        raise UserError(
            f"some vectors of {what} are not finite",
            hint="check the teacher: NaN or infinity often comes from float16 weights",
        )
    return longest
