"""Mixtral: Mistral's blocks with experts in the place of every MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import attention, decoder, experts, family
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width = architecture["hidden_size"]
    mlp, idle = experts(architecture, "num_local_experts", architecture["intermediate_size"])
    layer = LayerCounts(attention=attention(architecture), mlp=mlp, norms=2 * width, idle=idle)
    return decoder(architecture, layer)


FAMILY = family("mixtral", count, own_experts=True, linear_router=True)
