"""Mistral: Llama's blocks, no biases, attention within a window where one is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .decoder import attention, decoder, family, gated
from .family import LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the language-model head."""
    width = architecture["hidden_size"]
    layer = LayerCounts(
        attention=attention(architecture),
        mlp=gated(width, architecture["intermediate_size"]),
        norms=2 * width,
    )
    return decoder(architecture, layer)


FAMILY = family("mistral", count)
