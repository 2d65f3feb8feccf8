"""What causal families share: pre-norm blocks, gated MLPs, grouped heads, rotary positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from embedexp.config.errors import UserError

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn


def attention(
    architecture: Mapping[str, Any], *, query_bias: bool = False, output_bias: bool = False
) -> int:
    """Parameters of one attention, with biases on queries, keys and values, or on the output."""
    width, (heads, key_heads, head) = architecture["hidden_size"], head_sizes(architecture)
    matrices = 2 * width * heads * head + 2 * width * key_heads * head
    biases = query_bias * (heads + 2 * key_heads) * head + output_bias * width
    return int(matrices + biases)


def head_sizes(architecture: Mapping[str, Any]) -> tuple[int, int, int]:
    """Heads, key and value heads, and dimensions of each."""
    heads: int = architecture["num_attention_heads"]
    head = architecture.get("head_dim") or architecture["hidden_size"] // heads
    return heads, architecture.get("num_key_value_heads") or heads, head


def gated(width: int, inner: int) -> int:
    """Parameters of a gated MLP without biases: three matrices."""
    return 3 * width * inner


def decoder(
    architecture: Mapping[str, Any],
    layer: LayerCounts,
    special: Mapping[int, LayerCounts] | None = None,
) -> ModelCounts:
    """A decoder without its language-model head: token table, blocks, one last norm."""
    width = architecture["hidden_size"]
    return ModelCounts(
        embedding=architecture["vocab_size"] * width,
        outside=width,
        layer=layer,
        special=special or {},
    )


def experts(
    architecture: Mapping[str, Any], number: str, inner: int, *, always: int = 0
) -> tuple[int, int]:
    """Parameters of a block of gated experts with its router, and how many a token doesn't meet.

    `number` is the configuration's name for how many experts there are; `always` is met by all.
    """
    width, count = architecture["hidden_size"], architecture[number]
    one = gated(width, inner)
    idle = count - architecture["num_experts_per_tok"]
    return count * one + width * count + always, idle * one


def family(
    model_type: str,
    count: Callable[[Mapping[str, Any]], ModelCounts],
    *,
    own_experts: bool = False,
    **more: Any,
) -> Family:
    """A causal family whose blocks carry the names that Llama's do."""

    def refuse(block: nn.Module) -> NoReturn:
        raise UserError(
            f"{model_type} has experts of its own; they cannot be routed once more",
            hint="set routing=dense, or choose a backbone with dense MLPs",
        )

    if own_experts:
        more["prepare"] = refuse
    return Family(
        model_type=model_type,
        causal=True,
        blocks="layers",
        mlp="mlp",
        norms=("input_layernorm", "post_attention_layernorm"),
        dropout=None,
        attention_dropout="attention_dropout",
        max_positions=None,
        count=count,
        own_experts=own_experts,
        **more,
    )
