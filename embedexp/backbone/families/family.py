"""What a family of transformers tells the rest of the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn


@dataclass(frozen=True)
class LayerCounts:
    """Parameters of one block, by part."""

    attention: int
    mlp: int
    norms: int


@dataclass(frozen=True)
class ModelCounts:
    """Parameters of a dense model: embedding tables, what else lies outside blocks, one block."""

    embedding: int
    outside: int
    layer: LayerCounts


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
    `model_arguments` are given to the model's class.
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
