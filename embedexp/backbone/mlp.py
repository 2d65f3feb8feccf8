"""The two-matrix MLP as one module, for families that spread it over a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable


class MLP(nn.Module):
    """`down(activation(up(x)))` over the last dimension, x `[..., d]`."""

    def __init__(
        self, up: nn.Linear, activation: Callable[[Tensor], Tensor], down: nn.Linear
    ) -> None:
        super().__init__()
        self.up, self.activation, self.down = up, activation, down

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the MLP to `[..., d]`."""
        output: Tensor = self.down(self.activation(self.up(hidden)))
        return output
