"""Position-weighted mean pooling: later tokens count more."""

from __future__ import annotations

import torch
from torch import Tensor


def pool(hidden: Tensor, cu_seqlens: Tensor) -> Tensor:
    """From float32 hidden states `[t, d]` of packed sequences to `[n, d]`.

    sum_i i h_i / sum_i i, with i = 1, 2, ..., l in each sequence of length l (SGPT,
    arXiv 2202.08904): in a causal model, late tokens have seen more of the text.
    """
    lengths = cu_seqlens.diff()
    count = len(hidden)
    starts = torch.repeat_interleave(cu_seqlens[:-1], lengths, output_size=count)
    places = torch.arange(1, count + 1, device=hidden.device) - starts
    total = torch.repeat_interleave(lengths * (lengths + 1) / 2, lengths, output_size=count)
    weighted = hidden * (places / total).to(hidden.dtype)[:, None]
    return torch.segment_reduce(weighted, "sum", lengths=lengths, axis=0, unsafe=True)
