"""Nomic BERT: bidirectional, post-norm, gated MLP without biases, rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the pooler."""
    width, heads = architecture["hidden_size"], architecture["num_attention_heads"]
    head = architecture.get("head_dim") or width // heads
    norm = 2 * width
    return ModelCounts(
        embedding=(architecture["vocab_size"] + architecture["type_vocab_size"]) * width,
        outside=norm,
        layer=LayerCounts(
            attention=4 * width * heads * head,
            mlp=3 * width * architecture["intermediate_size"],
            norms=2 * norm,
        ),
    )


FAMILY = Family(
    model_type="nomic_bert",
    causal=False,
    blocks="layers",
    mlp="mlp",
    norms=("post_attention_layernorm", "post_mlp_layernorm"),
    dropout="hidden_dropout_prob",
    attention_dropout="attention_probs_dropout_prob",
    max_positions=None,
    count=count,
    model_arguments={"add_pooling_layer": False},
)
