"""Parameters by arithmetic, without torch: for `show`, and for models too large to build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from .families import family_of, lacks
from .positions import native

if TYPE_CHECKING:
    from embedexp.config.schema.backbone import Backbone
    from embedexp.config.schema.embedding import Embedding
    from embedexp.config.schema.routing import Routing


class ModelOptions(Protocol):
    """The part of an experiment that decides how many parameters there are."""

    @property
    def backbone(self) -> Backbone: ...  # noqa: D102

    @property
    def routing(self) -> Routing: ...  # noqa: D102

    @property
    def embedding(self) -> Embedding: ...  # noqa: D102


def routed_layers(placement: str | list[int], layers: int) -> list[int]:
    """The 0-based layers that a placement names, of so many layers; in order."""
    if isinstance(placement, list):
        return sorted(set(placement))
    return list(range(layers) if placement == "every" else range(1, layers, 2))


def parameter_counts(config: ModelOptions) -> dict[str, int]:
    """Total, active (met by one token) and embedding-table parameters of an experiment's model.

    Where tokens meet different numbers of experts, active is their mean. Embedding tables count
    as active. Published counts are checked against this.

    Raises:
        UserError: the family is not supported, or the architecture lacks a value.
    """
    backbone = config.backbone
    routing: Any = config.routing
    try:
        architecture = native(backbone)
        counts = family_of(architecture).count(architecture)
        layers = backbone.layers or architecture["num_hidden_layers"]
    except KeyError as missing:
        raise lacks(missing.args[0]) from None
    blocks = [counts.of(layer) for layer in range(layers)]
    total = counts.embedding + counts.outside
    total += sum(block.attention + block.mlp + block.norms for block in blocks)
    idle: float = sum(block.idle for block in blocks)

    placed = routed_layers(getattr(routing, "placement", []), layers)
    routed = [blocks[layer] for layer in placed if layer < layers]
    if hasattr(routing, "num_experts"):
        experts, width = routing.num_experts, backbone.architecture["hidden_size"]
        met = min(getattr(routing, "capacity", getattr(routing, "top_k", 1)), experts)
        shared = routing.biases == "shared_output"
        for block in routed:
            expert = block.mlp - block.mlp_biases * shared
            total += experts * expert - block.mlp
            total += experts * width + width * shared  # the router, and the shared bias
            idle += (experts - met) * expert
    elif routing.name == "mote":
        copies = max(routing.experts.values())  # beside the first
        idle += sum(copies * (block.mlp + block.norms) for block in routed)
        total += sum(copies * (block.mlp + block.norms) for block in routed)
    if (width := getattr(config.embedding, "projection", None)) is not None:
        total += width * (architecture["hidden_size"] + 1)
    active = total - round(idle)
    return {"total": total, "active": active, "embedding": counts.embedding}
