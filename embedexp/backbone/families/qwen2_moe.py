"""Qwen MoE: Qwen2's blocks with experts and one expert that every token meets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import attention, decoder, experts, family, gated
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width = architecture["hidden_size"]
    shared = gated(width, architecture["shared_expert_intermediate_size"]) + width
    mlp, idle = experts(
        architecture, "num_experts", architecture["moe_intermediate_size"], always=shared
    )
    heads = attention(architecture, query_bias=architecture.get("qkv_bias", True))
    layer = LayerCounts(attention=heads, mlp=mlp, norms=2 * width, idle=idle)
    dense = LayerCounts(
        attention=heads, mlp=gated(width, architecture["intermediate_size"]), norms=2 * width
    )
    step = architecture.get("decoder_sparse_step", 1)
    only = architecture.get("mlp_only_layers") or ()
    layers = range(architecture["num_hidden_layers"])
    special = {i: dense for i in layers if i in only or (i + 1) % step}
    return decoder(architecture, layer, special)


FAMILY = family("qwen2_moe", count, own_experts=True, linear_router=True)
