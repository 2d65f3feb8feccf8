"""How many rows each expert got, over a step and over the whole training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from .output import RouterOutput
    from .totals import RouterTotals


class RouterLoad:
    """Counts `[L, E]`: `total` since training began, and of the running step, whose end is told."""

    def __init__(self) -> None:
        self.total: Tensor | None = None
        self._step: Tensor | None = None

    def count(self, router: RouterOutput | RouterTotals | None) -> None:
        """Add a forward pass, or a step's totals; None where there is no router."""
        if router is not None:
            load = torch.stack(list(router.loads))
            self._step = load if self._step is None else self._step + load

    def end_step(self) -> Tensor | None:
        """The counts of the step that ends, which join the total; None without a router."""
        step, self._step = self._step, None
        if step is not None:
            self.total = step if self.total is None else self.total.to(step.device) + step
        return step

    def shares(self) -> list[list[float]]:
        """Each expert's share of its layer's rows since training began, layer by layer."""
        if self.total is None:
            return []
        shares: list[list[float]] = (self.total / self.total.sum(-1, keepdim=True)).tolist()
        return shares
