"""Qwen3: Llama's blocks with a norm on each head's queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import attention, decoder, family, gated, head_sizes
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD = 128
"""Dimensions of a head where the configuration does not say, whatever the width."""


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    stated = {**architecture, "head_dim": architecture.get("head_dim") or HEAD}
    width, bias = stated["hidden_size"], bool(stated.get("attention_bias"))
    layer = LayerCounts(
        attention=attention(stated, query_bias=bias, output_bias=bias) + 2 * head_sizes(stated)[2],
        mlp=gated(width, stated["intermediate_size"]),
        norms=2 * width,
    )
    return decoder(stated, layer)


FAMILY = family("qwen3", count)
