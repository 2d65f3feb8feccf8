"""What routers report in one forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class RouterOutput:
    """Per routed layer, in order: `probabilities [t, E]` over all experts, `assignments [t, k]`."""

    probabilities: list[Tensor] = field(default_factory=list)
    assignments: list[Tensor] = field(default_factory=list)
