"""Numbers that are none end a run at once."""

from __future__ import annotations

import torch
from torch import Tensor


class NonFiniteLossError(RuntimeError):
    """The loss or its gradient became NaN or infinite: going on would only spread it."""


def require_finite(value: Tensor, name: str, step: int) -> None:
    """Check a scalar of step `step` (0-based); `name` says what it is.

    Raises:
        NonFiniteLossError: it is NaN or infinite.
    """
    if not torch.isfinite(value.detach()):
        raise NonFiniteLossError(f"the {name} is {value.item()} at step {step + 1}")
