"""Expert modules: exact copies of a dense one, fed by a learned router or by the task."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from embedexp.backbone.rows import read_rows

if TYPE_CHECKING:
    from .context import RoutingContext


def copies(dense: nn.Module, count: int) -> nn.ModuleList:
    """`count` independent exact copies of a module, itself the first."""
    return nn.ModuleList([dense, *(copy.deepcopy(dense) for _ in range(count - 1))])


class MixtureOfExperts(nn.Module):
    """Token choice: each row goes to the top k experts of a softmax over all, none is dropped.

    The output is the sum of the chosen experts' outputs, weighted by their probabilities, which
    sum to 1 with `renormalize="topk"` (then equal experts are the dense module) and are the raw
    softmax with `"none"` (Nomic Embed v2; megablocks without normalisation).
    """

    def __init__(
        self,
        dense: nn.Module,
        width: int,
        *,
        num_experts: int,
        top_k: int,
        renormalize: Literal["none", "topk"],
        router_std: float,
        layer: int,
        context: RoutingContext,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        like = next(dense.parameters())
        self.router = nn.Linear(width, num_experts, bias=False, device=like.device)
        self.router.to(like.dtype)
        if like.device.type != "meta":
            nn.init.normal_(self.router.weight, std=router_std, generator=generator)
        self.experts = copies(dense, num_experts)
        self.top_k, self.renormalize = top_k, renormalize
        self.layer, self.context = layer, context

    @property
    def idle_parameters(self) -> int:
        """Parameters that a single row does not meet."""
        idle = len(self.experts) - self.top_k
        return idle * sum(p.numel() for p in self.experts[0].parameters())

    def forward(self, hidden: Tensor) -> Tensor:
        """Route and transform the rows of `[..., d]`."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        probabilities = self.router(rows).float().softmax(-1)
        weights, assignments = probabilities.topk(self.top_k, dim=-1)
        if self.context.current is not None:
            self.context.current.record(self.layer, probabilities, assignments)
        if self.renormalize == "topk":
            weights = weights / weights.sum(-1, keepdim=True)

        # Sort (row, choice) pairs by expert, run each expert on its slice, undo the sorting.
        chosen = assignments.flatten()
        order = chosen.argsort(stable=True)
        inverse = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        counts = chosen.bincount(minlength=len(self.experts)).tolist()
        repeated = rows[:, None].expand(-1, self.top_k, -1).flatten(0, 1)
        slices = torch.split(read_rows(repeated, order, inverse), counts)
        outputs = [expert(part) for expert, part in zip(self.experts, slices, strict=True)]
        mixed = read_rows(torch.cat(outputs), inverse, order).view(*weights.shape, -1)
        weighted: Tensor = mixed * weights[..., None].to(mixed.dtype)
        return weighted.sum(1).view_as(hidden)

    def extra_repr(self) -> str:
        """What printing shows beside the submodules."""
        return f"top_k={self.top_k}, renormalize={self.renormalize}"


class TaskExperts(nn.Module):
    """One copy of a row-wise module per task expert; a sequence's rows all go to one.

    The batch is ordered by expert, so that each gets consecutive rows (MoTE, section 3).
    """

    def __init__(self, dense: nn.Module, *, num_experts: int, context: RoutingContext) -> None:
        super().__init__()
        self.experts = copies(dense, num_experts)
        self.context = context

    @property
    def idle_parameters(self) -> int:
        """Parameters that a single row does not meet."""
        return (len(self.experts) - 1) * sum(p.numel() for p in self.experts[0].parameters())

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform the rows of `[1, t, d]` or `[t, d]`."""
        current = self.context.current
        if current is None or current.expert_rows is None:
            raise RuntimeError("a task-routed model needs to know the tasks: call its Embedder")
        rows = hidden.reshape(-1, hidden.shape[-1])
        parts = torch.split(rows, current.expert_rows)
        outputs = [expert(part) for expert, part in zip(self.experts, parts, strict=True)]
        return torch.cat(outputs).view_as(hidden)
