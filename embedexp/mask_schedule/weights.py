"""The soft mask's weights, in the four readings of its coefficient."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Fraction = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

FORMS: Mapping[str, Fraction] = {
    "column": lambda i, j, length: (length, j),
    "row": lambda i, j, length: (length, i),
    "printed": lambda i, j, length: (length - i, length - j),
    "literal": lambda i, j, length: (i, length),
}
"""Numerator and denominator of c_ij, from 1-based i and j and the length."""


def soft_weights(length: int | Tensor, alpha: float, form: str) -> Tensor:
    """min(1, alpha c_ij) where j > i, else 1.

    `length` is one length, giving `[l, l]`, or lengths `[n]`, giving `[n, l, l]` with l the
    longest: each sequence by its own length, while keys beyond it are left for the caller to
    close. float32 in [0, 1].
    """
    one = isinstance(length, int)
    lengths = torch.tensor([length]) if isinstance(length, int) else length
    longest = int(lengths.max())
    index = torch.arange(1, longest + 1, device=lengths.device, dtype=torch.float64)
    i, j = index[:, None], index[None, :]
    real = lengths.to(torch.float64)[:, None, None]

    numerator, denominator = FORMS[form](i, j, real)
    # Where alpha c >= 1 nothing is divided, so that a zero denominator (printed, j = l) means
    # open as soon as alpha > 0, and closed at alpha = 0.
    scaled = alpha * numerator
    reached = (scaled >= denominator) & (scaled > 0)
    share = torch.where(reached, 1.0, scaled / denominator.clamp(min=1)).clamp(0, 1)
    weights = torch.where(j > i, share, 1.0).expand(len(lengths), longest, longest)
    weights = weights.to(torch.float32)
    return weights[0] if one else weights


def log_bias(weights: Tensor) -> Tensor:
    """The additive bias before the softmax: log of the weights, -inf where closed.

    Softmax of scores + log M is the softmax whose exponentials are multiplied by M, the only
    reading that is exactly causal at alpha 0 and exactly bidirectional at alpha 1.
    """
    return weights.log()
