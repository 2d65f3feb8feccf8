"""Parameters by arithmetic, without torch: for `show`, and for models too large to build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .families import family_of, lacks

if TYPE_CHECKING:
    from embedexp.config.schema.backbone import Backbone
    from embedexp.config.schema.routing import Routing


class ModelOptions(Protocol):
    """The part of an experiment that decides how many parameters there are."""

    @property
    def backbone(self) -> Backbone: ...  # noqa: D102

    @property
    def routing(self) -> Routing: ...  # noqa: D102


def routed_layers(placement: str | list[int], layers: int) -> list[int]:
    """The 0-based layers that a placement names, of so many layers; in order."""
    if placement == "every":
        return list(range(layers))
    if placement == "every_other":
        return list(range(1, layers, 2))
    return sorted(set(placement))  # type: ignore[arg-type]


def parameter_counts(config: ModelOptions) -> dict[str, int]:
    """Total, active (met by one token) and embedding-table parameters of an experiment's model.

    Embedding tables count as active. Published counts are checked against this.

    Raises:
        UserError: the family is not supported, or the architecture lacks a value.
    """
    backbone, routing = config.backbone, config.routing
    try:
        counts = family_of(backbone.architecture).count(backbone.architecture)
        layers = backbone.layers or backbone.architecture["num_hidden_layers"]
    except KeyError as missing:
        raise lacks(missing.args[0]) from None
    layer = counts.layer
    dense = counts.embedding + counts.outside
    dense += layers * (layer.attention + layer.mlp + layer.norms)

    total = active = dense
    if routing.name == "moe":
        routed = len(routed_layers(routing.placement, layers))
        router = backbone.architecture["hidden_size"] * routing.num_experts
        total += routed * ((routing.num_experts - 1) * layer.mlp + router)
        active += routed * ((routing.top_k - 1) * layer.mlp + router)
    elif routing.name == "mote":
        routed = len(routed_layers(routing.placement, layers))
        experts = max(routing.experts.values()) + 1
        total += routed * (experts - 1) * (layer.mlp + layer.norms)
    return {"total": total, "active": active, "embedding": counts.embedding}
