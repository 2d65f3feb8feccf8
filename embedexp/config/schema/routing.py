"""Routing: which parameters a token or a sequence meets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

Placement = Literal["every", "every_other"] | list[Annotated[int, Field(ge=0)]]


class Dense(Option):
    """The backbone as it is."""

    name: Literal["dense"] = field("option")


class Router(Option):
    """What all learned routers over copies of a dense MLP have in common (sparse upcycling)."""

    num_experts: int = field("experts per routed layer", unit="experts", ge=1)
    placement: Placement = field("which layers are routed: every, every_other or 0-based layers")
    biases: Literal["per_expert", "shared_output"] = field("what becomes of the dense MLP's biases")
    router_init: Literal["normal", "uniform"] = field("distribution of the router's first weights")
    router_std: float = field("standard deviation of the router's initialisation", ge=0)
    z_loss_coefficient: float = field("weight of the router z-loss", ge=0)


class TokenChoice(Router):
    """Each token chooses the `top_k` experts that its router finds most probable."""

    top_k: int = field("experts per token", unit="experts", ge=1)
    renormalize: Literal["none", "topk", "function_preserving"] = field(
        "how the chosen experts' probabilities become weights"
    )


class Balanced(Option):
    """A loss that pushes routers towards equal load."""

    balance_coefficient: float = field("weight of the load-balancing loss", ge=0)
    balance_normalization: Literal["switch", "printed"] = field("with or without the factor E")


class MoE(TokenChoice, Balanced):
    """Token choice with a balance loss."""

    name: Literal["moe"] = field("option")


class Switch(Router, Balanced):
    """Token choice of one expert, weighted by its probability."""

    name: Literal["switch"] = field("option")
    renormalize: Literal["none", "function_preserving"] = field(
        "how the chosen expert's probability becomes its weight"
    )


class TokenLevel(TokenChoice, Balanced):
    """Token routing in MoTE's place: the instruction is only in the text, before each input."""

    name: Literal["token_level"] = field("option")


class LossFree(TokenChoice):
    """Token choice balanced by a bias on the selection, without a balance loss."""

    name: Literal["loss_free"] = field("option")
    bias_update_rate: float = field("how far the bias moves per optimizer step", gt=0)


class ExpertChoice(Router):
    """Each expert chooses tokens, equally many, within each sequence."""

    name: Literal["expert_choice"] = field("option")
    capacity: float = field("experts per token on average", unit="experts", gt=0)
    renormalize: Literal["none", "chosen"] = field(
        "whether the weights of the experts that chose a token sum to 1"
    )


class MoTE(Option):
    """Mixture of task experts: the task picks the expert for the whole sequence."""

    name: Literal["mote"] = field("option")
    placement: Placement = field("which layers are routed: every, every_other or 0-based layers")
    experts: dict[str, Annotated[int, Field(ge=0)]] = field("instruction task -> expert")


Routing = Annotated[
    Dense | MoE | Switch | TokenLevel | LossFree | ExpertChoice | MoTE, Field(discriminator="name")
]
