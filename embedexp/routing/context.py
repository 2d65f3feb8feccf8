"""How a forward pass reaches the routed modules inside a Hugging Face model.

An MLP or a norm gets no keyword arguments, but its block does: the embedder gives the model a
`RoutingPass`, and each routed block's forward lays it into the context that its routed modules
share, and takes it out again. So each forward pass has its own record, recomputation
under activation checkpointing sees the same pass again, and nothing is kept after the forward.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from .output import Decision, RouterOutput

if TYPE_CHECKING:
    from torch import nn

ARGUMENT = "routing_pass"
"""The keyword argument that carries the pass through the model."""


class RoutingPass:
    """One forward pass, seen from the routed modules.

    `expert_rows[e]` is how many consecutive rows task expert e gets, for batches ordered by
    expert; None where tasks play no role. `lengths` are the rows of each sequence, in order; None
    lets routers that choose within sequences take all rows as one. `recorded` holds by layer what
    the router decided. Not a dataclass: FSDP2 copies those on their way into a block, and what
    is recorded in a copy is lost.
    """

    def __init__(
        self, expert_rows: list[int] | None = None, lengths: list[int] | None = None
    ) -> None:
        self.expert_rows, self.lengths = expert_rows, lengths
        self.recorded: dict[int, Decision] = {}

    def record(self, layer: int, decision: Decision) -> None:
        """Keep a layer's decision, the first time only: recomputation does not count twice."""
        self.recorded.setdefault(layer, decision)

    def output(self) -> RouterOutput | None:
        """What the routers reported, in the order of layers; None without routers."""
        if not self.recorded:
            return None
        return RouterOutput.of([self.recorded[layer] for layer in sorted(self.recorded)])


class RoutingContext:
    """The slot that a model's routed modules share: the pass in which they are, or None."""

    def __init__(self) -> None:
        self.current: RoutingPass | None = None

    def watch(self, block: nn.Module) -> None:
        """Have a block's forward fill and clear the slot."""
        block.routing_context = self  # type: ignore[assignment]
        block.__class__ = routed_class(type(block))  # type: ignore[arg-type]


@cache
def routed_class(block_class: type[nn.Module]) -> type[nn.Module]:
    """A subclass whose forward lays its pass into the context, under the same name.

    A subclass rather than hooks: transformers checkpoints a block's forward inside its hooks, so
    hooks would be absent when the backward pass computes the block again.
    """

    class Routed(block_class):  # type: ignore[misc, valid-type]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            context: RoutingContext = self.routing_context
            context.current = kwargs.get(ARGUMENT)
            try:
                return super().forward(*args, **kwargs)
            finally:
                context.current = None

    Routed.__name__, Routed.__qualname__ = block_class.__name__, block_class.__qualname__
    return Routed
