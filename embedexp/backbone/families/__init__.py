"""Families of transformers: one small torch-free module each, with what others must know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest

from . import (
    bert,
    deepseek,
    jina_embeddings_v3,
    llama,
    mistral,
    mixtral,
    modernbert,
    nomic_bert,
    olmoe,
    qwen2,
    qwen2_moe,
    qwen3,
    xlm_roberta,
)
from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FAMILIES", "Family", "LayerCounts", "ModelCounts", "family_of", "lacks"]

FAMILIES: Mapping[str, Family] = {
    family.model_type: family
    for family in (
        bert.FAMILY,
        deepseek.FAMILY,
        jina_embeddings_v3.FAMILY,
        llama.FAMILY,
        mistral.FAMILY,
        mixtral.FAMILY,
        modernbert.FAMILY,
        nomic_bert.FAMILY,
        olmoe.FAMILY,
        qwen2.FAMILY,
        qwen2_moe.FAMILY,
        qwen3.FAMILY,
        xlm_roberta.FAMILY,
    )
} | {deepseek.PUBLISHED: deepseek.FAMILY}


def family_of(architecture: Mapping[str, Any]) -> Family:
    """The family of an architecture, by its `model_type`.

    Raises:
        UserError: the family is not supported.
    """
    model_type = str(architecture.get("model_type"))
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    close = nearest(model_type, FAMILIES)
    raise UserError(
        f"backbone.architecture.model_type={model_type} is not supported",
        hint=f"did you mean {close}?" if close else f"choose from: {', '.join(sorted(FAMILIES))}",
    )


def lacks(key: str) -> UserError:
    """The mistake of an architecture that does not state a value."""
    return UserError(
        f"backbone.architecture lacks {key}",
        hint=f"add it: +backbone.architecture.{key}=... (the model's config.json states it)",
    )
