"""BERT and XLM-R blocks with rotary positions; transformers has them as Jina Embeddings v3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the pooler; there is no table of positions."""
    width, inner = architecture["hidden_size"], architecture["intermediate_size"]
    norm = 2 * width
    return ModelCounts(
        embedding=(architecture["vocab_size"] + architecture["type_vocab_size"]) * width,
        outside=norm,
        layer=LayerCounts(
            attention=4 * (width * width + width),
            mlp=2 * width * inner + inner + width,
            mlp_biases=inner + width,
            norms=2 * norm,
        ),
    )


FAMILY = Family(
    model_type="jina_embeddings_v3",
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
