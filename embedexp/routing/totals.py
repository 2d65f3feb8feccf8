"""What routers did in a whole step: sums over its forward passes and over ranks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from .output import RouterOutput


@dataclass(frozen=True)
class RouterTotals:
    """Sums over rows, of L layers with E experts each, without a graph.

    `loads [L, E]` (int64) count the rows that each expert got; `rows` (int64, a scalar) all rows;
    `probabilities [L, E]` and `entropy [L]` (nats) sum up what the routers gave, `z [L]`
    logsumexp(logits)^2, in float64.
    """

    loads: Tensor
    rows: Tensor
    probabilities: Tensor
    entropy: Tensor
    z: Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, router: RouterOutput) -> RouterTotals:
        """Those of one forward pass."""
        sums = [p.sum(0, dtype=torch.float64) for p in router.probabilities]
        entropy = [torch.special.entr(p).sum(dtype=torch.float64) for p in router.probabilities]
        z = [x.logsumexp(-1).square().sum(dtype=torch.float64) for x in router.logits]
        loads = torch.stack(router.loads)
        rows = torch.tensor(len(router.probabilities[0]), device=loads.device)
        # Where only probabilities were reported, there is no z.
        z = z or [torch.zeros_like(value) for value in entropy]
        return cls(loads, rows, torch.stack(sums), torch.stack(entropy), torch.stack(z))

    def __add__(self, other: RouterTotals) -> RouterTotals:
        return RouterTotals(
            self.loads + other.loads,
            self.rows + other.rows,
            self.probabilities + other.probabilities,
            self.entropy + other.entropy,
            self.z + other.z,
        )

    def summed(self, over_ranks: Callable[[Tensor], Tensor]) -> RouterTotals:
        """The totals of all ranks, by one sum of a vector; counts below 2^53 stay exact in it."""
        layers, experts = self.loads.shape
        columns = [self.loads, self.probabilities, self.entropy[:, None], self.z[:, None]]
        columns.append(self.rows.expand(layers, 1))
        table = over_ranks(torch.cat([column.to(torch.float64) for column in columns], 1))
        loads, probabilities, entropy, z, rows = torch.split(table, [experts, experts, 1, 1, 1], 1)
        return RouterTotals(
            loads.to(torch.int64), rows[0, 0].to(torch.int64), probabilities, entropy[:, 0], z[:, 0]
        )

    def nothing(self) -> RouterTotals:
        """Totals of the same shape, of no row."""
        return RouterTotals(*(torch.zeros_like(getattr(self, f.name)) for f in fields(self)))
