"""Expert modules: copies of a dense one, chosen by each token's router or by the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from embedexp.backbone.rows import read_rows, spread_rows

from .output import Decision
from .upcycling import RoutedExperts, copies

if TYPE_CHECKING:
    from embedexp.config.schema.routing import Router

    from .context import RoutingContext


class MixtureOfExperts(RoutedExperts):
    """Token choice: each row goes to the top k experts of a softmax over all, none is dropped.

    The output is the sum of the chosen experts' outputs, each times its weight. With p the softmax
    over all experts and C(x) the k experts chosen for a row x, the weight of e in C(x) is

    - `none`: p_e(x) (Nomic Embed v2; megablocks without normalisation);
    - `topk`: p_e(x) / sum of p over C(x), so that weights always sum to 1. With k = 1 the weight
      is constant, and only a balance loss moves the router;
    - `function_preserving`: p_e(x) / s(x), s(x) the sum of the k largest probabilities that the
      router as first drawn, kept as the buffer `first_router`, gives to x. At the start weights
      sum to 1, so that equal experts are the dense module, up to rounding; later they are the raw
      softmax on the dense module's scale, and the router learns from the loss whatever k.

    `selection_bias [E]`, where there is one, is added to p to choose C(x), and never weighs.
    """

    first_router: Tensor
    selection_bias: Tensor | None

    def __init__(
        self,
        dense: nn.Module,
        width: int,
        option: Router,
        *,
        top_k: int,
        renormalize: Literal["none", "topk", "function_preserving"],
        biased_selection: bool,
        layer: int,
        context: RoutingContext,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(dense, width, option, generator)
        self.top_k, self.renormalize = top_k, renormalize
        self.layer, self.context = layer, context
        weight = self.router.weight
        if renormalize == "function_preserving":
            self.register_buffer("first_router", weight.detach().clone())
        bias = torch.zeros(option.num_experts, dtype=torch.float32, device=weight.device)
        self.register_buffer("selection_bias", bias if biased_selection else None)

    @property
    def idle_parameters(self) -> float:
        """Parameters that a single row does not meet."""
        return (len(self.experts) - self.top_k) * self.expert_parameters

    def forward(self, hidden: Tensor) -> Tensor:
        """Route and transform the rows of `[..., d]`."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        logits = self.router(rows).float()
        probabilities = logits.softmax(-1)
        if self.selection_bias is None:
            weights, assignments = probabilities.topk(self.top_k, dim=-1)
        else:
            assignments = (probabilities + self.selection_bias).topk(self.top_k, dim=-1).indices
            weights = probabilities.gather(-1, assignments)
        if self.renormalize == "topk":
            weights = weights / weights.sum(-1, keepdim=True)
        elif self.renormalize == "function_preserving":
            weights = weights / self._first_sum(rows)

        # Sort (row, choice) pairs by expert, run each expert on its slice, undo the sorting.
        chosen = assignments.flatten()
        order = chosen.argsort(stable=True)
        inverse = torch.empty_like(order).scatter_(
            0, order, torch.arange(len(order), device=order.device)
        )
        load = chosen.bincount(minlength=len(self.experts))
        if self.context.current is not None:
            decision = Decision(logits, probabilities, assignments, load)
            self.context.current.record(self.layer, decision)
        slices = torch.split(spread_rows(rows, order, inverse, self.top_k), load.tolist())
        outputs = [expert(part) for expert, part in zip(self.experts, slices, strict=True)]
        mixed = read_rows(torch.cat(outputs), inverse, order).view(*weights.shape, -1)
        weighted: Tensor = mixed * weights[..., None].to(mixed.dtype)
        output = weighted.sum(1)
        if self.bias is not None:
            output = output + self.bias.to(output.dtype)
        return output.view_as(hidden)

    def _first_sum(self, rows: Tensor) -> Tensor:
        """What the router as first drawn gives to its k choices, `[t, 1]`; differentiable."""
        first = nn.functional.linear(rows, self.first_router).float().softmax(-1)
        return first.topk(self.top_k, dim=-1).values.sum(-1, keepdim=True)

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
