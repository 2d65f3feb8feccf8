"""Nomic's published layout of BERT-like models: its configuration and its tensors' names.

nomic-bert-2048 and Nomic Embed v1 are gated without biases; nomic-xlm-2048 is XLM-R with rotary
positions; Nomic Embed v2 (arXiv 2502.07972) is that with experts in some blocks. transformers has
the blocks of the first as `nomic_bert` and of the others as `jina_embeddings_v3`. Experts lie one
below the other in two matrices, `w1` and `w2 [experts * inner, width]`, the second transposed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from .families import jina_embeddings_v3, nomic_bert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

MODEL_TYPE = "nomic_bert"
TRAINED_POSITIONS = 2048
"""Where a configuration does not state `max_trained_positions`."""

FIXED: Mapping[str, Any] = {
    "prenorm": False,
    "parallel_block": False,
    "causal": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "num_shared_experts": 0,
    "expert_choice_router": False,
    "ffn_div": 1,
}
"""Published keys that have one value in all published models; others would be another model."""

GATED, PLAIN = "swiglu", "gelu"
BIASES = ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")

COMMON = (
    ("emb_ln.", "embeddings.LayerNorm."),
    ("encoder.layers.", "layers."),
    (".attn.out_proj.", ".self_attn.o_proj."),
    (".norm1.", ".post_attention_layernorm."),
    (".norm2.", ".post_mlp_layernorm."),
    (".mlp.router.layer.", ".mlp.router."),
    (".mlp.experts.bias", ".mlp.bias"),
)
ONLY_GATED = (
    (".mlp.fc11.", ".mlp.up_proj."),
    (".mlp.fc12.", ".mlp.gate_proj."),
    (".mlp.fc2.", ".mlp.down_proj."),
)
"""Published parts of names, and transformers'."""

PREFIX = re.compile(r"^bert\.")
LEFT_BEHIND = re.compile(r"^(cls|pooler|lm_head)\.|inv_freq$")
QKV = re.compile(r"(.*)\.attn\.Wqkv\.(weight|bias)$")
EXPERTS = re.compile(r"(.*)\.mlp\.experts\.mlp\.(w1|w2)$")
OUR_EXPERT = re.compile(r"(.*)\.mlp\.experts\.(\d+)\.fc([12])\.weight$")
PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def is_published(raw: Mapping[str, Any]) -> bool:
    """Whether a `config.json` is in this layout: transformers' own has no `n_embd`."""
    return raw.get("model_type") == MODEL_TYPE and "n_embd" in raw


def architecture(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A published configuration in transformers' words.

    Texts longer than `max_trained_positions`, for which some models stretch their rotary positions,
    are beyond what is read: there is one set of positions.

    Raises:
        UserError: it describes another model than the blocks compute; names the first such key.
    """
    for key, value in FIXED.items():
        if key in raw and raw[key] != value:
            raise UserError(
                f"{key}={raw[key]} of the published layout is not supported",
                hint=f"published models have {key}={value}",
            )
    activation = raw.get("activation_function")
    biases = {key: bool(raw.get(key, activation == PLAIN)) for key in BIASES}
    expected = {GATED: False, PLAIN: True}.get(str(activation))
    if expected is None or raw.get("use_rms_norm"):
        raise UserError(
            f"activation_function={activation}, use_rms_norm={raw.get('use_rms_norm')} of the "
            "published layout are not supported",
            hint=f"published models have {GATED} or {PLAIN}, and no root-mean-square norm",
        )
    odd = [key for key, value in biases.items() if value != expected]
    if odd:
        raise UserError(
            f"{odd[0]}={biases[odd[0]]} with activation_function={activation} is not supported",
            hint=f"published models with {activation} have {odd[0]}={expected}",
        )
    family = nomic_bert.FAMILY if activation == GATED else jina_embeddings_v3.FAMILY
    trained = raw.get("max_trained_positions") or TRAINED_POSITIONS
    found = {
        "model_type": family.model_type,
        "vocab_size": raw["vocab_size"],
        "hidden_size": raw["n_embd"],
        "num_hidden_layers": raw["n_layer"],
        "num_attention_heads": raw["n_head"],
        "intermediate_size": raw["n_inner"],
        "hidden_act": "silu" if activation == GATED else "gelu",
        "max_position_embeddings": min(raw.get("n_positions") or trained, trained),
        "type_vocab_size": raw["type_vocab_size"],
        "layer_norm_eps": raw["layer_norm_epsilon"],
        "rope_parameters": {"rope_type": "default", "rope_theta": float(raw["rotary_emb_base"])},
    }
    named = ("pad_token_id", "bos_token_id", "eos_token_id", "initializer_range")
    return found | {key: raw[key] for key in named if raw.get(key) is not None}


def routing(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The routing of a published configuration, as `routing=moe` has it; None for a dense model.

    Raises:
        UserError: weights of the chosen experts are normalised otherwise than to a sum of 1.
    """
    every = raw.get("moe_every_n_layers") or 0
    layers = expert_layers(every, raw["n_layer"])
    if not layers:
        return None
    norm = raw.get("moe_normalize_expert_weights") or 0
    if norm not in (0, 1):
        raise UserError(
            f"moe_normalize_expert_weights={norm} of the published layout is not supported",
            hint="published models have false",
        )
    return {
        "name": "moe",
        "num_experts": raw["num_experts"],
        "top_k": raw["moe_top_k"],
        "placement": "every_other" if every == 2 else layers,
        "renormalize": "topk" if norm else "none",
        "biases": "shared_output",
        "router_init": "normal",
        "router_std": raw.get("initializer_range", 0.02),
        "z_loss_coefficient": 0.0,
        "balance_coefficient": raw.get("router_aux_loss_coef") or 0.0,
        "balance_normalization": "switch",
    }


def expert_layers(every: int, layers: int) -> list[int]:
    """The 0-based blocks with experts: those whose number leaves 1 when divided by `every`."""
    return [layer for layer in range(layers) if every > 0 and layer % every == 1]


def read(state: Mapping[str, Tensor], raw: Mapping[str, Any]) -> dict[str, Tensor]:
    """Published tensors under the names of transformers' blocks and our experts."""
    gated = raw.get("activation_function") == GATED
    renamed = (*COMMON, *(ONLY_GATED if gated else ()))
    found: dict[str, Tensor] = {}
    for published, tensor in state.items():
        name = PREFIX.sub("", published)
        if LEFT_BEHIND.search(name):
            continue
        if match := QKV.match(name):
            block = rename(match[1] + ".", renamed)
            for part, rows in zip(PROJECTIONS, tensor.chunk(3), strict=True):
                found[f"{block}self_attn.{part}.{match[2]}"] = rows.contiguous()
        elif match := EXPERTS.match(name):
            block = rename(match[1] + ".", renamed)
            for index, rows in enumerate(tensor.chunk(raw["num_experts"])):
                first = match[2] == "w1"
                matrix = rows if first else rows.T
                layer = "fc1" if first else "fc2"
                found[f"{block}mlp.experts.{index}.{layer}.weight"] = matrix.contiguous()
        else:
            found[rename(name, renamed)] = tensor
    return found


def write(state: Mapping[str, Tensor], *, gated: bool) -> dict[str, Tensor]:
    """The inverse of `read`: tensors of our models under their published names."""
    import torch

    pairs = (*COMMON, *(ONLY_GATED if gated else ()))
    renamed = tuple((ours, theirs) for theirs, ours in pairs)
    found: dict[str, Tensor] = {}
    experts: dict[str, dict[int, Tensor]] = {}
    for name, tensor in state.items():
        if match := OUR_EXPERT.match(name):
            block = rename(match[1] + ".", renamed)
            matrix = tensor if match[3] == "1" else tensor.T
            experts.setdefault(f"{block}mlp.experts.mlp.w{match[3]}", {})[int(match[2])] = matrix
        elif ".self_attn.q_proj." in name:
            parts = [state[name.replace("q_proj", part)] for part in PROJECTIONS]
            published = rename(name, renamed).replace("self_attn.q_proj", "attn.Wqkv")
            found[published] = torch.cat(parts)
        elif ".self_attn.k_proj." not in name and ".self_attn.v_proj." not in name:
            found[rename(name, renamed)] = tensor.contiguous()
    for name, matrices in experts.items():
        found[name] = torch.cat([matrices[index] for index in sorted(matrices)]).contiguous()
    return found


def rename(name: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """A tensor's name with the parts that differ exchanged."""
    for old, new in pairs:
        if old in name:
            name = name.replace(old, new)
    return name
