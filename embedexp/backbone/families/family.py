"""What a family of transformers tells the rest of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn


@dataclass(frozen=True)
class LayerCounts:
    """Parameters of one block, by part; `idle` of the MLP's are not met by a single token."""

    attention: int
    mlp: int
    norms: int
    idle: int = 0
    mlp_biases: int = 0
    """How many of the MLP's parameters are biases."""


@dataclass(frozen=True)
class ModelCounts:
    """Parameters of a model: embedding tables, what else lies outside blocks, one block.

    `special` are the blocks, by 0-based layer, that differ from the others.
    """

    embedding: int
    outside: int
    layer: LayerCounts
    special: Mapping[int, LayerCounts] = field(default_factory=dict)

    def of(self, layer: int) -> LayerCounts:
        """Parameters of the block of a 0-based layer."""
        return self.special.get(layer, self.layer)


def no_preparation(block: nn.Module) -> None:
    """For families whose MLP is one module already."""


@dataclass(frozen=True)
class Family:
    """Where the parts of a family's blocks are, and how its configuration names things.

    `blocks`, `mlp` and `norms` are dotted paths, the first in the model, the others in a block;
    `mlp` and `norms` act on each token alone (row-wise), which is what routing needs. `prepare`
    makes a block's MLP one module at `mlp`, without changing what the block computes.
    `dropout` and `attention_dropout` are the configuration's names for them, None where the
    family has none. `max_positions` is the configuration's name for the size of an absolute
    position table, None where positions are relative.
    `model_arguments` are given to the model's class. `positions_after_padding` says that the first
    position is the padding index + 1, not 0. `own_experts` says that the MLPs are experts already,
    `linear_router` that their router was a linear layer in transformers 4, which 4-bit loading
    rounds.
    `plain` is false where transformers' `AutoModel` does not know the family.
    """

    model_type: str
    causal: bool
    blocks: str
    mlp: str
    norms: tuple[str, ...]
    dropout: str | None
    attention_dropout: str | None
    max_positions: str | None
    count: Callable[[Mapping[str, Any]], ModelCounts]
    prepare: Callable[[nn.Module], None] = no_preparation
    model_arguments: Mapping[str, Any] = field(default_factory=dict)
    positions_after_padding: bool = False
    own_experts: bool = False
    linear_router: bool = False
    plain: bool = True

    def first_position(self, architecture: Mapping[str, Any]) -> int:
        """The position id of a text's first token; transformers' padding index is 1 if unstated."""
        return int(architecture.get("pad_token_id", 1)) + 1 if self.positions_after_padding else 0
