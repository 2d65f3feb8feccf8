"""Routing: which parameters a token or a sequence meets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

Placement = Literal["every", "every_other"] | list[Annotated[int, Field(ge=0)]]


class Dense(Option):
    """The backbone as it is."""

    name: Literal["dense"] = field("option")


class MoE(Option):
    """Token choice over copies of each dense MLP (sparse upcycling)."""

    name: Literal["moe"] = field("option")
    num_experts: int = field("experts per routed layer", unit="experts", ge=1)
    top_k: int = field("experts per token", unit="experts", ge=1)
    placement: Placement = field("which layers are routed: every, every_other or 0-based layers")
    renormalize: Literal["none", "topk"] = field("whether the chosen experts' weights sum to 1")
    router_std: float = field("standard deviation of the router's initialisation", ge=0)
    balance_coefficient: float = field("weight of the load-balancing loss", ge=0)
    balance_normalization: Literal["switch", "printed"] = field("with or without the factor E")


class MoTE(Option):
    """Mixture of task experts: the task picks the expert for the whole sequence."""

    name: Literal["mote"] = field("option")
    placement: Placement = field("which layers are routed: every, every_other or 0-based layers")
    experts: dict[str, Annotated[int, Field(ge=0)]] = field("instruction task -> expert")


Routing = Annotated[Dense | MoE | MoTE, Field(discriminator="name")]
