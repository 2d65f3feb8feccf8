"""BERT: bidirectional, post-norm, two-matrix MLP, absolute positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .family import Family, LayerCounts, ModelCounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn


def prepare(block: nn.Module) -> None:
    """Move the second matrix of the MLP beside the first.

    transformers keeps it in `output`, together with dropout, residual and norm, which stay.
    """
    from torch.nn import Identity

    from ..mlp import MLP

    intermediate: Any = block.intermediate
    output: Any = block.output
    block.intermediate = MLP(intermediate.dense, intermediate.intermediate_act_fn, output.dense)
    output.dense = Identity()


def count(architecture: Mapping[str, Any]) -> ModelCounts:
    """Parameters by arithmetic, without the pooler."""
    width, inner = architecture["hidden_size"], architecture["intermediate_size"]
    tables = (
        architecture["vocab_size"]
        + architecture["max_position_embeddings"]
        + architecture["type_vocab_size"]
    )
    norm = 2 * width
    return ModelCounts(
        embedding=tables * width,
        outside=norm,
        layer=LayerCounts(
            attention=4 * (width * width + width),
            mlp=2 * width * inner + inner + width,
            norms=2 * norm,
            mlp_biases=inner + width,
        ),
    )


FAMILY = Family(
    model_type="bert",
    causal=False,
    blocks="encoder.layer",
    mlp="intermediate",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    dropout="hidden_dropout_prob",
    attention_dropout="attention_probs_dropout_prob",
    max_positions="max_position_embeddings",
    count=count,
    prepare=prepare,
    model_arguments={"add_pooling_layer": False},
)
