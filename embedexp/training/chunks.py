"""Chunks of sequences, each embedded at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedexp.batching.layout import Layout


def chunks(lengths: NDArray[np.int64], budget: int | None) -> list[NDArray[np.int64]]:
    """Indices of sequences, chunk by chunk: at most `budget` tokens in each, or one sequence.

    Long sequences come first, and sequences of a length stay together; None makes one chunk of
    all, in their order. No sequences give no chunk.
    """
    if len(lengths) == 0:
        return []
    if budget is None or lengths.sum() <= budget:
        return [np.arange(len(lengths))]
    order = np.argsort(-lengths, kind="stable")
    ends = lengths[order].cumsum()
    parts, start, before = [], 0, 0
    while start < len(order):
        stop = max(int(np.searchsorted(ends, before + budget, side="right")), start + 1)
        parts.append(order[start:stop])
        start, before = stop, int(ends[stop - 1])
    return parts


def rounds(layout: Layout, budget: int | None) -> int:
    """How many chunks every rank goes through: as many as the rank with the most has, at least 1.

    All ranks know this without asking, so that none waits for another's chunk.
    """
    if layout.world == 1 or budget is None:
        return max(1, len(chunks(layout.lengths, budget)))
    counts = (
        len(chunks(layout.lengths[layout.members(rank)], budget)) for rank in range(layout.world)
    )
    return max(1, *counts)
