"""Mean pooling: the average of a sequence's final hidden states."""

from __future__ import annotations

import torch
from torch import Tensor


def pool(hidden: Tensor, cu_seqlens: Tensor) -> Tensor:
    """From float32 hidden states `[t, d]` of packed sequences to `[n, d]`."""
    return torch.segment_reduce(hidden, "mean", lengths=cu_seqlens.diff(), axis=0, unsafe=True)
