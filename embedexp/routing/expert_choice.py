"""Expert choice: each expert takes its most probable tokens of each sequence, equally many."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .output import Decision
from .placement import replace, routed_blocks
from .upcycling import RoutedExperts

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import ExpertChoice

    from .context import RoutingContext


def apply(
    option: ExpertChoice,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Replace the MLPs in place (expert choice, arXiv 2202.09368, within each sequence).

    Raises:
        UserError: a bad placement.
    """
    for layer, block, family in routed_blocks(model, option.placement):
        replace(
            block,
            family.mlp,
            lambda dense, layer=layer: ChoosingExperts(  # type: ignore[misc]
                dense,
                model.config.hidden_size,
                option,
                layer=layer,
                context=context,
                generator=generator,
            ),
        )
        context.watch(block)


def experts_by_task(option: ExpertChoice) -> None:
    """Tasks play no role."""


def places(length: int, capacity: float, experts: int) -> int:
    """How many of a sequence's tokens each expert takes: its share, rounded up, at most all."""
    return min(length, ceil(capacity * length / experts))


class ChoosingExperts(RoutedExperts):
    """Each expert takes the `places` tokens of each sequence that it finds most probable.

    Probabilities are a softmax over experts, per token. A token's output is the sum over the
    experts that took it, each times its probability (divided by their sum with
    `renormalize=chosen`); it is zero for a token that none took, which then keeps its residual
    alone. Sequences do not compete, so that a text's vector does not depend on its batch.
    """

    def __init__(
        self,
        dense: nn.Module,
        width: int,
        option: ExpertChoice,
        *,
        layer: int,
        context: RoutingContext,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(dense, width, option, generator)
        self.capacity, self.renormalize = option.capacity, option.renormalize
        self.layer, self.context = layer, context

    @property
    def idle_parameters(self) -> float:
        """Parameters that a single row does not meet, on average."""
        experts = len(self.experts)
        return (experts - min(self.capacity, experts)) * self.expert_parameters

    def forward(self, hidden: Tensor) -> Tensor:
        """Route and transform the rows of `[..., d]`."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        current, count = self.context.current, len(self.experts)
        lengths = [len(rows)] if current is None or current.lengths is None else current.lengths
        logits = self.router(rows).float()
        probabilities = logits.softmax(-1)

        taken = self._take(probabilities.detach(), lengths)
        chosen = torch.zeros_like(probabilities, dtype=torch.bool).scatter_(0, taken, True)
        if current is not None:
            indices = torch.arange(count, device=rows.device)
            load = torch.full_like(indices, len(taken))
            assignments = torch.where(chosen, indices, -1)
            current.record(self.layer, Decision(logits, probabilities, assignments, load))
        weights = probabilities
        if self.renormalize == "chosen":
            sums = (probabilities * chosen).sum(-1, keepdim=True)
            weights = probabilities / torch.where(sums > 0, sums, 1)

        flat = taken.T.flatten()
        parts = torch.split(rows.index_select(0, flat), len(taken))
        outputs = torch.cat([e(part) for e, part in zip(self.experts, parts, strict=True)])
        scale = weights.gather(0, taken).T.flatten()[:, None].to(outputs.dtype)
        mixture = torch.zeros_like(rows, dtype=outputs.dtype)
        mixture = mixture.index_add(0, flat, outputs * scale)
        if self.bias is not None:
            mixture = mixture + self.bias.to(mixture.dtype)
        return mixture.view_as(hidden)

    def _take(self, probabilities: Tensor, lengths: list[int]) -> Tensor:
        """The rows that each expert takes, `[n, E]`, equally many per expert in each sequence."""
        device = probabilities.device
        sizes = torch.tensor(lengths)
        starts = (sizes.cumsum(0) - sizes).tolist()
        first = torch.cat(
            [
                torch.arange(start, start + places(length, self.capacity, len(self.experts)))
                for start, length in zip(starts, lengths, strict=True)
            ]
        ).to(device)
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), sizes).to(device)
        # By probability, then by sequence without disturbing that order within one.
        order = probabilities.argsort(dim=0, descending=True, stable=True)
        order = order.gather(0, sequence[order].argsort(dim=0, stable=True))
        return order[first]

    def extra_repr(self) -> str:
        """What printing shows beside the submodules."""
        return f"capacity={self.capacity}, renormalize={self.renormalize}"
