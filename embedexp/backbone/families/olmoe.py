"""OLMoE: Llama's blocks with norms on queries and keys, and experts for every MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import attention, decoder, experts, family, head_sizes
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width = architecture["hidden_size"]
    heads, key_heads, head = head_sizes(architecture)
    bias = bool(architecture.get("attention_bias"))
    mlp, idle = experts(architecture, "num_experts", architecture["intermediate_size"])
    layer = LayerCounts(
        attention=attention(architecture, query_bias=bias, output_bias=bias)
        + (heads + key_heads) * head,
        mlp=mlp,
        norms=2 * width,
        idle=idle,
    )
    return decoder(architecture, layer)


FAMILY = family("olmoe", count, own_experts=True, linear_router=True)
