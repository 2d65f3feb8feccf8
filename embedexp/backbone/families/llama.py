"""Llama: causal, pre-norm, gated MLP, rotary positions, grouped key and value heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width, inner = architecture["hidden_size"], architecture["intermediate_size"]
    heads = architecture["num_attention_heads"]
    key_heads = architecture.get("num_key_value_heads") or heads
    head = architecture.get("head_dim") or width // heads
    attention = 2 * width * heads * head + 2 * width * key_heads * head
    if architecture.get("attention_bias"):
        attention += (heads + 2 * key_heads) * head + width
    mlp, mlp_biases = 3 * width * inner, 0
    if architecture.get("mlp_bias"):
        mlp_biases = 2 * inner + width
    return ModelCounts(
        embedding=architecture["vocab_size"] * width,
        outside=width,
        layer=LayerCounts(
            attention=attention, mlp=mlp + mlp_biases, norms=2 * width, mlp_biases=mlp_biases
        ),
    )


FAMILY = Family(
    model_type="llama",
    causal=True,
    blocks="layers",
    mlp="mlp",
    norms=("input_layernorm", "post_attention_layernorm"),
    dropout=None,
    attention_dropout="attention_dropout",
    max_positions=None,
    count=count,
)
