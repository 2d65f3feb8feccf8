"""From absolute to rotary positions: which architecture that gives, and where weights go.

transformers has the blocks of BERT and XLM-R with rotary positions as `jina_embeddings_v3`, so a
converted model is an ordinary model of that family. The table of positions has no successor.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from .families import deepseek, jina_embeddings_v3, lacks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from embedexp.config.schema.backbone import Backbone, Rotary

CONVERTIBLE = ("bert", "xlm-roberta")
ROTARY = jina_embeddings_v3.FAMILY.model_type

STATED = ("layer_norm_eps", "pad_token_id", "type_vocab_size")
"""Values that must be given, since the two families' defaults differ."""

LEFT_BEHIND = re.compile(r"embeddings\.position_embeddings\.|pooler\.")
RENAMED = (
    ("encoder.layer.", "layers."),
    ("attention.self.query.", "self_attn.q_proj."),
    ("attention.self.key.", "self_attn.k_proj."),
    ("attention.self.value.", "self_attn.v_proj."),
    ("attention.output.dense.", "self_attn.o_proj."),
    ("attention.output.LayerNorm.", "post_attention_layernorm."),
    ("intermediate.dense.", "mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
    (".output.LayerNorm.", ".post_mlp_layernorm."),
)
"""Parts of parameters' names, tried in order: each applies to what the earlier ones left."""


def native(option: Backbone) -> dict[str, Any]:
    """The architecture that is built, in transformers' words, positions converted if asked for.

    Raises:
        UserError: the family's positions cannot be converted.
    """
    architecture = deepseek.translate(option.architecture)
    if option.positions is None:
        return architecture
    return rotary(architecture, option.positions)


def rotary(architecture: Mapping[str, Any], positions: Rotary) -> dict[str, Any]:
    """The architecture with rotary instead of absolute positions.

    Raises:
        UserError: neither BERT nor XLM-R, or a value is missing whose defaults differ.
    """
    model_type = architecture.get("model_type")
    if model_type not in CONVERTIBLE:
        raise UserError(
            f"positions of {model_type} cannot be converted, only of {' and '.join(CONVERTIBLE)}",
            where="backbone.positions",
            hint="set backbone.positions=null to keep the backbone's own",
        )
    for key in STATED:
        if key not in architecture:
            raise lacks(key)
    return {
        **architecture,
        "model_type": ROTARY,
        "max_position_embeddings": positions.max_length,
        "rope_parameters": {"rope_type": "default", "rope_theta": positions.base},
    }


def convert(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a BERT or XLM-R model under the names of the rotary one."""
    return {rename(name): value for name, value in state.items() if not LEFT_BEHIND.match(name)}


def rename(name: str) -> str:
    """A parameter's name in the rotary model."""
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name
