"""DeepSeekMoE: Llama's attention, dense first layers, then experts beside shared ones.

transformers has these blocks as the text model of DeepSeek OCR 2: plain attention, softmax over
all experts, the greedy top k without renormalisation, shared experts added (arXiv 2401.06066).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from .decoder import attention, decoder, experts, family, gated
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLISHED = "deepseek"
"""The `model_type` in published checkpoints, whose own code transformers does not include."""

FIXED: Mapping[str, Any] = {"norm_topk_prob": False, "scoring_func": "softmax"}
"""Published keys that have one value here; others would be another model."""


def translate(architecture: Mapping[str, Any]) -> dict[str, Any]:
    """A published configuration in transformers' words; one in these words comes back as it is.

    Raises:
        UserError: it asks for what the blocks do not do.
    """
    if architecture.get("model_type") != PUBLISHED:
        return dict(architecture)
    for key, value in FIXED.items():
        if architecture.get(key, value) != value:
            raise UserError(
                f"backbone.architecture.{key}={architecture[key]} is not supported",
                hint=f"DeepSeekMoE models have {key}={value}",
            )
    dense = architecture.get("first_k_dense_replace", 0)
    every = architecture.get("moe_layer_freq", 1)
    own = {"first_k_dense_replace", "moe_layer_freq", "auto_map", "architectures", *FIXED}
    native = {key: value for key, value in architecture.items() if key not in own}
    native["mlp_layer_types"] = [
        "sparse" if i >= dense and i % every == 0 else "dense"
        for i in range(architecture["num_hidden_layers"])
    ]
    return {**native, "model_type": FAMILY.model_type, "topk_method": "greedy"}


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width, inner = architecture["hidden_size"], architecture["moe_intermediate_size"]
    shared = gated(width, inner * architecture["n_shared_experts"])
    mlp, idle = experts(architecture, "n_routed_experts", inner, always=shared)
    bias = bool(architecture.get("attention_bias"))
    heads = attention(architecture, query_bias=bias, output_bias=bias)
    layer = LayerCounts(attention=heads, mlp=mlp, norms=2 * width, idle=idle)
    dense = LayerCounts(
        attention=heads, mlp=gated(width, architecture["intermediate_size"]), norms=2 * width
    )
    kinds = architecture["mlp_layer_types"]
    special = {i: dense for i, kind in enumerate(kinds) if kind == "dense"}
    return decoder(architecture, layer, special)


# Its router is a bare parameter in the published code, too, and stays as it is in 4-bit loading.
FAMILY = family("deepseek_ocr2_text", count, own_experts=True, plain=False)
