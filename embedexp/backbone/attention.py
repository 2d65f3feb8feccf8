"""The one attention function of all backbones, registered with transformers.

It takes a packed batch (`input_ids [1, t]`, `position_ids [1, t]`) and a `PackedLayout`, given to
the model as the keyword argument `packed_layout`, and keeps sequences apart. Linear layers then
run over real tokens only, and attention over groups of nearly equal length.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from .dropout import dropout as drop
from .rows import read_rows

if TYPE_CHECKING:
    from torch import nn

    from .layout import Bucket, PackedLayout

NAME = "embedexp_packed"
NAMES = {"sdpa": NAME, "eager": f"{NAME}_eager"}
"""What the hook is called in transformers, by the implementation within a bucket."""


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    packed_layout: PackedLayout | None = None,
    sliding_window: int | None = None,
    eager: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within each sequence of a packed batch, by torch's sdpa or written out (`eager`).

    `query [1, h, t, d]`, `key` and `value [1, g, t, d]` with g dividing h; the output is
    `[1, t, h, d]`. Tokens `sliding_window` or more apart do not attend to each other. Without a
    layout, an ordinary padded batch goes to transformers' own sdpa.
    """
    if packed_layout is None:
        output, _ = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return output, None
    layout = packed_layout
    # Qwen MoE keeps the window in the module and doesn't pass it on.
    window = sliding_window or getattr(module, "sliding_window", None)
    buckets = layout.buckets
    if window:
        buckets = tuple(bucket.within(window, query.device) for bucket in buckets)
    dtype = query.dtype
    # bfloat16's backward pass is slow on a CPU, slower than converting and using float32.
    slow = query.device.type == "cpu" and dtype == torch.bfloat16

    sizes = [bucket.sequences * bucket.length for bucket in buckets]
    parts = []
    for tensor in (query, key, value):
        rows = tensor[0].transpose(0, 1)
        rows = rows.float() if slow else rows
        padded = rows if layout.in_order else read_rows(rows, layout.pad, layout.unpad)
        parts.append(torch.split(padded, sizes))
    with torch.autocast("cpu", enabled=False) if slow else nullcontext():
        outputs = [
            attend(queries, keys, values, bucket, dropout, scaling, eager=eager)
            for queries, keys, values, bucket in zip(*parts, buckets, strict=True)
        ]
    padded = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
    if not layout.in_order:
        padded = read_rows(padded, layout.unpad, layout.pad, layout.filled)
    return padded.to(dtype)[None], None


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bucket: Bucket,
    dropout: float,
    scaling: float | None,
    *,
    eager: bool = False,
) -> Tensor:
    """Attention in one bucket: rows `[n l, h, d]` (keys and values `[n l, g, d]`), likewise out."""
    shape = (bucket.sequences, bucket.length, -1, query.shape[-1])
    query, key, value = (rows.view(shape).transpose(1, 2) for rows in (query, key, value))
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    bias = None if bucket.bias is None else bucket.bias.to(query.dtype)
    # sdpa has no kernel with dropout on a CPU and writes it out with torch's, slower, dropout.
    if eager or (dropout > 0 and query.device.type == "cpu"):
        output = written_out(query, key, value, bias, dropout, bucket.causal, scaling)
    else:
        output = scaled_dot_product_attention(
            query, key, value, bias, dropout_p=dropout, is_causal=bucket.causal, scale=scaling
        )
    return output.transpose(1, 2).flatten(0, 1)


def written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: float,
    causal: bool,
    scaling: float | None,
) -> Tensor:
    """Attention as its formula says, with a float32 softmax; all are `[n, h, l, d]`."""
    scores = query * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = scores @ key.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias
    if causal:
        length = scores.shape[-1]
        closed = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(closed, float("-inf"))
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    return (drop(weights, dropout) if dropout > 0 else weights) @ value


def mask_unless_packed(*args: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
    """The sdpa mask of transformers for padded batches; none for packed ones."""
    if attention_mask is None:
        return None
    return sdpa_mask(*args, attention_mask=attention_mask, **kwargs)


AttentionInterface.register(NAMES["sdpa"], packed_attention)
AttentionInterface.register(NAMES["eager"], partial(packed_attention, eager=True))
for name in NAMES.values():
    AttentionMaskInterface.register(name, mask_unless_packed)
