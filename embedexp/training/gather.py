"""Vectors of all ranks, in the order of the global batch, with a gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, distributed

if TYPE_CHECKING:
    from embedexp.batching.layout import Layout


class _Gather(torch.autograd.Function):
    """All-gather forward; backward takes the own rows, with no communication."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        counts = np.bincount(layout.owners, minlength=layout.world)
        longest = int(counts.max())
        padded = local.new_zeros(longest, local.shape[1])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in range(layout.world)]
        distributed.all_gather(parts, padded)
        rows = np.empty(len(layout.owners), np.int64)
        for rank in range(layout.world):
            rows[layout.members(rank)] = rank * longest + np.arange(counts[rank])
        return torch.cat(parts).index_select(0, torch.from_numpy(rows).to(local.device))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        layout: Layout = ctx.layout
        own = torch.from_numpy(layout.members(layout.rank)).to(gradient.device)
        return gradient.index_select(0, own) * layout.world, None


def gather(local: Tensor, layout: Layout) -> Tensor:
    """The global batch's vectors `[n, d]` from this rank's `[n_r, d]`; ranks may own none.

    Every rank takes the same loss of the result, so each has the whole gradient at its own vectors
    already. The strategies average gradients over ranks; the factor `world` makes that a sum.
    """
    if layout.world == 1:
        return local
    gathered: Tensor = _Gather.apply(local, layout)  # type: ignore[no-untyped-call]
    return gathered
