"""What routers report in one forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Decision(NamedTuple):
    """One layer's routing of t rows over E experts.

    `logits` and `probabilities` are `[t, E]`; `assignments [t, k]` holds expert indices, with
    expert choice `[t, E]` and -1 in place of experts that did not take the row; `load [E]` counts
    the rows that each expert got.
    """

    logits: Tensor
    probabilities: Tensor
    assignments: Tensor
    load: Tensor


@dataclass
class RouterOutput:
    """Per routed layer, in order, the fields of `Decision`; probabilities are over all experts."""

    probabilities: list[Tensor] = field(default_factory=list)
    assignments: list[Tensor] = field(default_factory=list)
    logits: list[Tensor] = field(default_factory=list)
    loads: list[Tensor] = field(default_factory=list)

    @staticmethod
    def of(decisions: list[Decision]) -> RouterOutput:
        """The decisions of the layers, in order."""
        return RouterOutput(
            [d.probabilities for d in decisions],
            [d.assignments for d in decisions],
            [d.logits for d in decisions],
            [d.load for d in decisions],
        )

    def detach(self) -> RouterOutput:
        """The same figures without their graph."""
        parts = (self.probabilities, self.assignments, self.logits, self.loads)
        return RouterOutput(*([tensor.detach() for tensor in part] for part in parts))
