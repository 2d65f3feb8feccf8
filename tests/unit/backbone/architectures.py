"""A small architecture of each family, with what sets the family apart switched on."""

from __future__ import annotations

from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 8192,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}
ENCODER = {**SIZES, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0}
DECODER = {
    **SIZES,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
EXPERTS = {**DECODER, "num_experts_per_tok": 2}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": {**ENCODER, "max_position_embeddings": 64},
    "xlm-roberta": {**ENCODER, "max_position_embeddings": 64},
    "jina_embeddings_v3": {**ENCODER, "max_position_embeddings": 64},
    "nomic_bert": {**ENCODER, "max_position_embeddings": 64},
    "modernbert": {
        **SIZES,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "local_attention": 8,  # half of it to each side, far less than the longest text
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    },
    "llama": DECODER,
    "mistral": {**DECODER, "sliding_window": 6},
    "qwen2": {
        **DECODER,
        "use_sliding_window": True,
        "sliding_window": 6,
        "max_window_layers": 1,
    },
    "qwen3": {**DECODER, "head_dim": 16},
    "mixtral": {**EXPERTS, "num_local_experts": 4},
    "olmoe": {**EXPERTS, "num_key_value_heads": 4, "num_experts": 4, "norm_topk_prob": False},
    "qwen2_moe": {
        **EXPERTS,
        "num_experts": 4,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24,
        "mlp_only_layers": [1],
        "norm_topk_prob": False,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "use_sliding_window": True,
        "sliding_window": 6,
    },
    "deepseek": {
        **EXPERTS,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "n_shared_experts": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "rope_theta": 10000.0,
    },
}
ARCHITECTURES = {name: {"model_type": name, **values} for name, values in ARCHITECTURES.items()}

CAUSAL = {
    "llama", "mistral", "qwen2", "qwen3", "mixtral", "olmoe", "qwen2_moe", "deepseek",
}  # fmt: skip
OWN_EXPERTS = {"mixtral", "olmoe", "qwen2_moe", "deepseek"}
