"""What a training stage learns: forward and backward of a whole optimizer step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from embedexp.batching.permutation import key_of

from .synchronise import backward

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from embedexp.routing.totals import RouterTotals


class Batch(Protocol):
    """The global batch of a step, of which this rank holds a share of the sequences."""

    def __len__(self) -> int:
        """Examples in the global batch; `samples_per_second` counts them."""
        ...

    def to(self, device: torch.device | str, **options: Any) -> Any:
        """The same batch on another device."""
        ...

    def figures(self) -> dict[str, Any]:
        """What the step's line of metrics says of the batch; at least `tokens`, of all ranks."""
        ...


@dataclass(frozen=True)
class Step:
    """A step, as its objective sees it: `number` is 0-based, `alpha` opens the attention mask.

    `model` is what is trained, as the strategy wrapped it.
    """

    number: int
    alpha: float
    seed: int
    rank: int
    world: int
    model: nn.Module

    def draw(self, chunk: int) -> None:
        """Set the generators for a chunk's forward, anew before each pass over it.

        Dropout is a function of (seed, step, rank, chunk), so that a second pass and a resumed run
        draw what the first one drew.
        """
        torch.manual_seed(key_of(self.seed, "dropout", self.number, self.rank, chunk))

    def backward(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None] | None = None,
        *,
        last: bool,
    ) -> None:
        """Backward from `tensors`; gradients of ranks meet (as a mean) when `last`, once a step.

        What a rank contributes to a sum over ranks is therefore to be scaled by `world`.
        """
        backward(self.model, tensors, gradients, last=last)


@dataclass(frozen=True)
class StepOutput:
    """`loss` is what the step minimised, `terms` its parts by name; scalars without a graph.

    Both are over the global batch, the same on all ranks, as are the routers' `router` totals.
    `negatives` tells of dynamic negatives, if there are any.
    """

    loss: Tensor
    terms: dict[str, Tensor] = field(default_factory=dict)
    router: RouterTotals | None = None
    negatives: dict[str, float] | None = None


class Objective(Protocol):
    """A module that holds all that is trained, and does a step's forward and backward.

    It leaves the gradient of the step's loss in the parameters; it neither clips nor moves them.
    All ranks make the same number of calls of `Step.backward`, of which the last says so.
    """

    def step(self, batch: Any, step: Step) -> StepOutput:
        """Forward and backward of one optimizer step."""
        ...
