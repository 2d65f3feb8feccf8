"""Loss arithmetic in float32 at least, whatever the model computes in."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")


def at_least_float32(values: Tensor) -> Tensor:
    """The same values in float32, or in float64 if they are."""
    return values if values.dtype == torch.float64 else values.float()


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1: half precision can't hold a cosine divided by 0.01."""
    return F.normalize(at_least_float32(vectors), dim=-1)


def exact(loss: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """Keep autocast out of a loss: it would compute the scores in half precision again."""

    @wraps(loss)
    def inner(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        device = next(value.device.type for value in args if isinstance(value, Tensor))
        with torch.autocast(device, enabled=False):
            return loss(*args, **kwargs)

    return inner
