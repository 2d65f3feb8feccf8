"""ModernBERT: bidirectional, pre-norm, gated MLP, rotary positions, windows in most layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic; the first block has no norm before its attention."""
    width, inner = architecture["hidden_size"], architecture["intermediate_size"]
    norm = width * (2 if architecture.get("norm_bias") else 1)
    attention, mlp = 4 * width * width, 3 * width * inner
    if architecture.get("attention_bias"):
        attention += 4 * width
    mlp_biases = 2 * inner + width if architecture.get("mlp_bias") else 0
    mlp += mlp_biases
    return ModelCounts(
        embedding=architecture["vocab_size"] * width,
        outside=2 * norm,
        layer=LayerCounts(attention, mlp, norms=2 * norm, mlp_biases=mlp_biases),
        special={0: LayerCounts(attention, mlp, norms=norm, mlp_biases=mlp_biases)},
    )


FAMILY = Family(
    model_type="modernbert",
    causal=False,
    blocks="layers",
    mlp="mlp",
    norms=("attn_norm", "mlp_norm"),
    dropout="mlp_dropout",
    attention_dropout="attention_dropout",
    max_positions=None,
    count=count,
)
