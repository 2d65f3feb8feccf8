"""The layout of Nomic's published models, which vLLM and llama.cpp's converter read.

Tensors and keys of `config.json` are named as in nomic-embed-text-v2-moe (arXiv 2502.07972), or,
for dense models, as in nomic-bert-2048 and nomic-xlm-2048.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.backbone import nomic_layout
from embedexp.backbone.families import jina_embeddings_v3, nomic_bert
from embedexp.backbone.quiet import quiet
from embedexp.backbone.weights import state_dtype
from embedexp.config.errors import UserError
from embedexp.config.trained import layers_of

from .. import files, projection, saving

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding import Embedder

CODE = "nomic-ai/nomic-bert-2048"
"""The repository whose code the published models name; it runs with `trust_remote_code` only."""

UNUSED: dict[str, Any] = {
    "bos_token_id": None,
    "dense_seq_output": True,
    "eos_token_id": None,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "moe_impl": "megablocks",
    "parallel_block_tied_norm": False,
    "reorder_and_upcast_attn": False,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": None,
    "use_xentropy": True,
}
"""Keys of the published `config.json` on which no vector depends, with their published values."""


def write(embedder: Embedder, folder: Path) -> None:
    """Write the published layout, with sentence-transformers' files for pooling and prompts.

    Raises:
        UserError: the model is not of this kind; names the first thing that does not fit.
    """
    if (reason := obstacle(embedder)) is not None:
        raise UserError(
            f"format nomic cannot express this model: {reason}",
            hint="use --format sentence_transformers",
        )
    from safetensors.torch import save_file

    gated = embedder.model.config.model_type == nomic_bert.FAMILY.model_type
    state = nomic_layout.write(embedder.model.state_dict(), gated=gated)
    save_file(state, folder / files.WEIGHTS, metadata={"format": "pt"})
    if embedder.projection is not None:
        projection.write(embedder.projection, folder)
    with quiet():
        embedder.text_tokenizer.save_pretrained(folder)
    files.write_json(folder / "config.json", configuration(embedder))
    content = {
        "format": saving.FORMAT,
        "model": saving.self_contained(embedder).model_dump(mode="json"),
    }
    files.write_json(folder / files.OURS, content)
    files.write_json(folder / files.SETTINGS, files.settings(embedder.config, plain=True))
    files.write_plain_modules(embedder, folder)
    # Its arguments are transformers' own; the published code knows none of them.
    lengths = files.read_json(folder / files.LENGTHS)
    lengths.pop("model_args", None)
    files.write_json(folder / files.LENGTHS, lengths)


def obstacle(embedder: Embedder) -> str | None:
    """The first thing about a model that the layout cannot say; None if it can say all."""
    config, schedule = embedder.config, embedder.schedule
    architecture = embedder.model.config
    kinds = [jina_embeddings_v3.FAMILY.model_type, nomic_bert.FAMILY.model_type]
    if architecture.model_type not in kinds:
        return (
            f"its backbone is {architecture.model_type}; only BERT or XLM-R with backbone.positions"
            " (rotary) and nomic_bert have these blocks"
        )
    expected = "gelu" if architecture.model_type == kinds[0] else "silu"
    if architecture.hidden_act != expected:
        return f"its hidden_act is {architecture.hidden_act}, not {expected}"
    rope = architecture.rope_parameters
    if rope["rope_type"] != "default" or rope.get("partial_rotary_factor", 1) != 1:
        return f"its rotary positions are of type {rope['rope_type']}"
    if (schedule.mask(schedule.final)) != "bidirectional":
        return f"its mask is not bidirectional (mask_schedule={config.mask_schedule.name})"
    if not files.is_plain(config.embedding):
        return (
            f"its embedding ({config.embedding.name}) leaves out instructions, puts text after"
            " them, or pools otherwise than by mean, cls or last token"
        )
    return _experts(embedder)


def _experts(embedder: Embedder) -> str | None:
    routing = embedder.config.routing
    if routing.name == "dense":
        return None
    if embedder.model.config.model_type == nomic_bert.FAMILY.model_type:
        return "its experts are gated, and published ones are not"
    if routing.name not in ("moe", "token_level", "switch"):
        return f"routing={routing.name} chooses experts otherwise than by the top of a softmax"
    if routing.renormalize != "none":
        return f"routing.renormalize={routing.renormalize}, and servers weigh experts by 'none'"
    if routing.biases != "shared_output":
        return f"routing.biases={routing.biases}, and published experts share one output bias"
    if _every(embedder) is None:
        return (
            f"routing.placement={routing.placement}, and published models have experts in every"
            " n-th layer, from layer 1 (counted from 0)"
        )
    return None


def _every(embedder: Embedder) -> int | None:
    """The n of experts in every n-th block, from block 1; None for other placements."""
    layers = embedder.model.config.num_hidden_layers
    placed = layers_of(embedder.config.routing, layers)
    for every in range(2, layers + 2):
        if nomic_layout.expert_layers(every, layers) == placed:
            return every
    return None


def configuration(embedder: Embedder) -> dict[str, Any]:
    """The published `config.json` of a model."""
    own = embedder.model.config
    routing = embedder.config.routing
    gated = own.model_type == nomic_bert.FAMILY.model_type
    experts: dict[str, Any] = {"moe_every_n_layers": 0, "num_experts": 0, "moe_top_k": 0}
    if routing.name != "dense":
        options = routing.model_dump()
        experts = {
            "moe_every_n_layers": _every(embedder),
            "num_experts": options["num_experts"],
            "moe_top_k": options.get("top_k", 1),
            "router_aux_loss_coef": options.get("balance_coefficient", 0.0),
        }
    auto = {
        "AutoConfig": f"{CODE}--configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": f"{CODE}--modeling_hf_nomic_bert.NomicBertModel",
    }
    found = {
        **UNUSED,
        **nomic_layout.FIXED,
        "architectures": ["NomicBertModel"],
        "auto_map": auto,
        "model_type": nomic_layout.MODEL_TYPE,
        "activation_function": nomic_layout.GATED if gated else nomic_layout.PLAIN,
        "add_pooling_layer": False,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "moe_resid_pdrop": 0.0,
        "moe_normalize_expert_weights": False,
        "initializer_range": own.initializer_range,
        "layer_norm_epsilon": own.layer_norm_eps,
        "max_trained_positions": own.max_position_embeddings,
        "n_positions": own.max_position_embeddings,
        "n_embd": own.hidden_size,
        "n_head": own.num_attention_heads,
        "n_inner": own.intermediate_size,
        "n_layer": own.num_hidden_layers,
        "pad_token_id": own.pad_token_id,
        "pad_vocab_size_multiple": 1,  # the table is as large as vocab_size says
        "rotary_emb_base": own.rope_parameters["rope_theta"],
        "rotary_scaling_factor": None,
        "type_vocab_size": own.type_vocab_size,
        "vocab_size": own.vocab_size,
        "torch_dtype": state_dtype(embedder.model),
        **dict.fromkeys(nomic_layout.BIASES, not gated),
        **experts,
    }
    return dict(sorted(found.items()))
