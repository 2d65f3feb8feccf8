"""Moving rows by an index, with backward passes that move rows too.

The backward pass of an ordinary `index_select` adds into a zeroed tensor row by row. Where the
inverse index is known, reading through it gives the same gradient much faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Read(torch.autograd.Function):
    """Forward `rows[index]`, backward `grad[inverse]`, times `keep` where given."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, index: Tensor, inverse: Tensor, keep: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(inverse, keep)
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        inverse, keep = ctx.saved_tensors
        moved = grad.index_select(0, inverse)
        if keep is not None:
            moved = moved * keep.to(moved.dtype).view(-1, *[1] * (moved.dim() - 1))
        return moved, None, None, None


def read_rows(rows: Tensor, index: Tensor, inverse: Tensor, keep: Tensor | None = None) -> Tensor:
    """`rows[index]` along the first dimension, whose gradient is `grad[inverse]` (times `keep`).

    The caller vouches for that gradient: `inverse` undoes `index`; rows that `index` repeats get
    no gradient through the repetitions (padding), and `keep [rows]` is 0 for rows never read.
    """
    moved: Tensor = _Read.apply(rows, index, inverse, keep)  # type: ignore[no-untyped-call]
    return moved


class _Spread(torch.autograd.Function):
    """Forward `rows[order // k]`, backward the sum of the k gradients of each row."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, inverse: Tensor, k: int) -> Tensor:
        ctx.save_for_backward(inverse)
        ctx.k = k
        return rows.index_select(0, order if k == 1 else order // k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (inverse,) = ctx.saved_tensors
        moved = grad.index_select(0, inverse)
        if ctx.k > 1:
            moved = moved.view(-1, ctx.k, *moved.shape[1:]).sum(1)
        return moved, None, None, None


def spread_rows(rows: Tensor, order: Tensor, inverse: Tensor, k: int) -> Tensor:
    """Each row k times, then put into `order`: `[t k, d]`.

    `order` permutes all t k copies, copy j of row i being i k + j; `inverse` undoes it, and the
    gradient is read through it.
    """
    moved: Tensor = _Spread.apply(rows, order, inverse, k)  # type: ignore[no-untyped-call]
    return moved
