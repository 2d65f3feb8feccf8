"""First-token pooling: the final hidden state of `[CLS]`, or of whatever token comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def pool(hidden: Tensor, cu_seqlens: Tensor) -> Tensor:
    """From float32 hidden states `[t, d]` of packed sequences to `[n, d]`."""
    return hidden.index_select(0, cu_seqlens[:-1])
