"""Attention over a packed batch by each of torch's kernels, for `gpu.py`.

Each takes `query`, `key`, `value` `[t, h, d]` of sequences one after the other, and gives `[t, h,
d]`. flex attention and `varlen_attn` have no backward pass, or no kernel, on a CPU.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from embedexp.backbone import attention
from embedexp.backbone.layout import PackedLayout

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from embedexp.mask_schedule import MaskSchedule

    Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


@cache
def compiled() -> Any:
    """Flex attention, fused."""
    return torch.compile(flex_attention, dynamic=False)


def ours(lengths: list[int], schedule: MaskSchedule, alpha: float, device: str) -> Attention:
    """What models here use: torch's sdpa over groups of nearly equal length."""
    layout = PackedLayout.build(lengths, schedule.mask(alpha), device)
    module = torch.nn.Module()

    def attend(*rows: Tensor) -> Tensor:
        turned = (tensor.transpose(0, 1)[None] for tensor in rows)
        output, _ = attention.packed_attention(module, *turned, None, packed_layout=layout)
        return output[0]

    return attend


class Padded:
    """sdpa over sequences that are padded to the longest, with one additive mask.

    They are padded already, as in a model that is padded throughout: that takes no time here.
    """

    def __init__(
        self,
        lengths: list[int],
        schedule: MaskSchedule,
        alpha: float,
        rows: tuple[Tensor, ...],
        back: Tensor,
    ) -> None:
        device = back.device
        sizes = torch.tensor(lengths, device=device)
        self.real = torch.arange(max(lengths), device=device) < sizes[:, None]
        bias = torch.zeros(self.real.shape, device=device).masked_fill(~self.real, float("-inf"))
        bias = bias[:, None, None]
        if schedule.mask(alpha) != "bidirectional":
            bias = bias + schedule.bias(sizes, alpha)[:, None]
        self.bias = bias.to(back.dtype)

        def batch(tensor: Tensor) -> Tensor:
            padded = pad_sequence(torch.split(tensor.detach(), lengths), batch_first=True)
            return padded.transpose(1, 2).contiguous()

        self.leaves = [batch(tensor).requires_grad_() for tensor in rows]
        self.back = batch(back)

    def forward(self) -> Tensor:
        """`[n, h, l, d]`."""
        return scaled_dot_product_attention(*self.leaves, self.bias)

    def run(self) -> None:
        """Forward and backward."""
        for leaf in self.leaves:
            leaf.grad = None
        self.forward().backward(self.back)

    def packed(self, tensor: Tensor) -> Tensor:
        """Without padding, `[t, h, d]`."""
        return tensor.transpose(1, 2)[self.real]


def flex(
    lengths: list[int], schedule: MaskSchedule, alpha: float, device: str, *, fused: bool = True
) -> Attention:
    """Flex attention: blocks between sequences left out, the soft mask added to the scores."""
    total = sum(lengths)
    sequences = torch.repeat_interleave(
        torch.arange(len(lengths)), torch.tensor(lengths), output_size=total
    ).to(device)
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0).to(device)

    def together(_b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return sequences[q] == sequences[k]

    blocks = create_block_mask(together, None, None, total, total, device=device)
    softened = None
    if schedule.mask(alpha) != "bidirectional":
        sizes = torch.tensor(lengths, device=device)
        table = schedule.bias(sizes, alpha).float()

        def softened(score: Tensor, _b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            one = sequences[q]
            first = starts[one]
            # Outside of the sequence the block mask closes the score; the table must be in range.
            column = (k - first).clamp(0, table.shape[2] - 1)
            return score + table[one, q - first, column]

    function = compiled() if fused else flex_attention

    def attend(*rows: Tensor) -> Tensor:
        turned = (tensor.transpose(0, 1)[None] for tensor in rows)
        output = function(*turned, score_mod=softened, block_mask=blocks)
        return output[0].transpose(0, 1)

    return attend


def varlen(lengths: list[int], device: str) -> Attention:
    """Torch's own packed attention, bidirectional, in half precision only."""
    from torch.nn.attention.varlen import varlen_attn

    ends = torch.tensor([0, *lengths], device=device).cumsum(0).to(torch.int32)
    longest = max(lengths)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return varlen_attn(query, key, value, ends, ends, longest, longest)

    return attend


def by_sequence(
    lengths: list[int], schedule: MaskSchedule, alpha: float, rows: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    """The plain twin: each sequence alone, written out, in float64."""
    outputs = []
    for query, key, value in zip(
        *(torch.split(tensor.double(), lengths) for tensor in rows), strict=True
    ):
        scores = torch.einsum("qhd,khd->hqk", query, key) * query.shape[-1] ** -0.5
        bias = schedule.bias(len(query), alpha).to(scores.device)
        weights = (scores + bias).softmax(-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, value))
    return torch.cat(outputs)
