"""Averages of weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def average(
    state_dicts: Sequence[Mapping[str, Tensor]], weights: Sequence[float] | None = None
) -> dict[str, Tensor]:
    """The weighted mean of each tensor, accumulated in float32 at least, in the first one's dtype.

    `weights` need not sum to 1; None weighs all equally. Tensors that are not floating point must
    be equal everywhere. Copies average to themselves, bit for bit.

    Raises:
        ValueError: no state dicts, weights that do not fit, or the first difference in names,
            shapes or integer values.
    """
    if not state_dicts:
        raise ValueError("nothing to average")
    shares = [1.0] * len(state_dicts) if weights is None else list(map(float, weights))
    if len(shares) != len(state_dicts) or sum(shares) == 0:
        raise ValueError(f"{len(shares)} weights summing to {sum(shares)} for {len(state_dicts)}")
    first = state_dicts[0]
    for i, state in enumerate(state_dicts[1:], start=2):
        odd = sorted(first.keys() ^ state.keys())
        if odd:
            raise ValueError(f"only one of models 1 and {i} has {odd[0]}")
    result: dict[str, Tensor] = {}
    for name, tensor in first.items():
        others = [state[name] for state in state_dicts]
        for i, other in enumerate(others[1:], start=2):
            if other.shape != tensor.shape:
                raise ValueError(
                    f"{name} has shape {tuple(tensor.shape)} in model 1 and {tuple(other.shape)} "
                    f"in model {i}"
                )
        if not tensor.is_floating_point():
            if any(not torch.equal(tensor, other) for other in others[1:]):
                raise ValueError(f"{name} is not a weight and differs between the models")
            result[name] = tensor.clone()
            continue
        parts = [partial(other.to, wide(tensor.dtype)) for other in others]
        result[name] = mean(parts, shares).to(tensor.dtype, copy=True)
    return result


def wide(dtype: torch.dtype) -> torch.dtype:
    """What weights of a dtype are accumulated in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def mean(parts: Sequence[Callable[[], Tensor]], shares: Sequence[float]) -> Tensor:
    """The sum of `share * part` over the sum of shares, with each part read once, one at a time.

    Taken as the part of the largest share plus the mean of the differences from it: equal parts
    give themselves bit for bit, and rounding is relative to what the parts differ in.
    """
    order = sorted(range(len(parts)), key=lambda i: -shares[i])
    first = parts[order[0]]()
    total, moved = sum(shares), torch.zeros_like(first)
    for i in order[1:]:
        if shares[i]:
            moved += (parts[i]() - first) * (shares[i] / total)
    return first + moved
