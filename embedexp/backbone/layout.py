"""How the sequences of a packed batch are grouped for attention: once per batch, for all layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bias = Callable[[Tensor], Tensor]
"""From real lengths `[n]` to additive biases `[n, l, l]`, l the longest of them."""

WASTE = 0.2
"""Largest share of a padded row that may be padding; beyond it, a shorter bucket starts."""

SLACK = 3
"""Tokens of padding that are always allowed: there another bucket costs more than it saves."""


@dataclass(frozen=True)
class Bucket:
    """`sequences` sequences, padded to `length`, that attend together.

    `bias` is added to the scores: `[n or 1, 1, l or 1, l]`, or None where nothing is closed but
    what `causal` closes. With `causal`, right padding needs no bias: no real token sees it.
    """

    sequences: int
    length: int
    causal: bool
    bias: Tensor | None
    _within: dict[int, Bucket] = field(default_factory=dict, compare=False, repr=False)

    def within(self, window: int, device: torch.device) -> Bucket:
        """The same bucket, in which only tokens less than `window` apart attend to each other.

        Made once per batch and window, since layers share it.
        """
        if window not in self._within:
            self._within[window] = self._closed_beyond(window, device)
        return self._within[window]

    def _closed_beyond(self, window: int, device: torch.device) -> Bucket:
        if self.length <= window:
            return self
        places = torch.arange(self.length, device=device)
        distance = places[:, None] - places
        closed = distance.abs() >= window
        if self.causal:
            closed |= distance < 0
        own = torch.zeros(1, 1, *closed.shape, device=device)
        own.masked_fill_(closed, float("-inf"))
        bias = own if self.bias is None else self.bias + own
        # Padding may be out of reach of every real token; a softmax over nothing is not a number.
        nothing = (bias == float("-inf")).all(-1, keepdim=True)
        bias = bias.masked_fill(nothing & (distance == 0), 0.0)
        return replace(self, causal=False, bias=bias, _within={})


@dataclass(frozen=True)
class PackedLayout:
    """From packed rows to padded slots and back.

    `pad [p]` is the packed row that each padded slot reads (padding repeats a sequence's last
    token), `unpad [t]` the slot of each packed row, `filled [p]` 1 where a slot is real and 0
    where it is padding, or None if none is padding. With `in_order` each row is in its own slot,
    as where all lengths are equal.
    """

    buckets: tuple[Bucket, ...]
    pad: Tensor
    unpad: Tensor
    filled: Tensor | None
    in_order: bool = False

    @staticmethod
    def build(
        lengths: Sequence[int],
        mask: Literal["bidirectional", "causal"] | Bias = "bidirectional",
        device: torch.device | str = "cpu",
    ) -> PackedLayout:
        """Group sequences of these lengths, each at least 1, and prepare each group's bias."""
        sizes = np.asarray(lengths, dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        order = np.argsort(-sizes, kind="stable")

        buckets, pad = [], []
        slots = np.empty_like(starts)
        offset = 0
        for members in groups(sizes, order):
            real = sizes[members]
            length = int(real[0])
            columns = np.minimum(np.arange(length), real[:, None] - 1)
            pad.append((starts[members][:, None] + columns).ravel())
            slots[members] = offset + length * np.arange(len(members))
            offset += length * len(members)
            buckets.append(
                Bucket(len(members), length, mask == "causal", bias_of(real, mask, device))
            )

        within = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
        unpad = np.repeat(slots, sizes) + within
        in_order = np.array_equal(unpad, np.arange(offset))
        filled = None
        if offset > len(unpad):
            real_slots = np.zeros(offset, dtype=np.float32)
            real_slots[unpad] = 1
            filled = torch.from_numpy(real_slots).to(device)
        return PackedLayout(
            tuple(buckets),
            torch.from_numpy(np.concatenate(pad)).to(device),
            torch.from_numpy(unpad).to(device),
            filled,
            in_order,
        )


def groups(sizes: NDArray[np.int64], order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Sequences in order of decreasing length, cut where padding would waste too much."""
    found: list[NDArray[np.int64]] = []
    first = 0
    descending = sizes[order]
    while first < len(order):
        longest = descending[first]
        shortest = min(longest * (1 - WASTE), longest - SLACK)
        last = int(np.searchsorted(-descending, -shortest, side="right"))
        found.append(order[first:last])
        first = last
    return found


def bias_of(
    lengths: NDArray[np.int64],
    mask: Literal["bidirectional", "causal"] | Bias,
    device: torch.device | str,
) -> Tensor | None:
    """The additive bias of one bucket, lengths `[n]` in decreasing order."""
    if mask == "causal":
        return None
    ragged = bool(lengths[-1] != lengths[0])
    real = torch.from_numpy(lengths if ragged else lengths[:1]).to(device)
    bias = None if mask == "bidirectional" else mask(real)[:, None]
    if not ragged:
        return bias
    columns = torch.arange(int(lengths[0]), device=device)
    closed = torch.zeros(len(lengths), 1, 1, len(columns), device=device)
    closed.masked_fill_(columns >= real[:, None, None, None], float("-inf"))
    return closed if bias is None else bias + closed
