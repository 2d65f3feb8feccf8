"""Routing in words, and what upcycling does to the dense model before the first step."""

from __future__ import annotations

from math import exp
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .experiment import Config

_DRAWS = 2000


def routing_words(config: Config) -> str:
    """The routing of an experiment, and how its first forward pass differs from the dense one."""
    routing: Any = config.routing
    if routing.name == "mote":
        experts = ", ".join(f"{task} {expert}" for task, expert in routing.experts.items())
        return (
            f"mote, in layers {routing.placement}; task -> expert: {experts}; "
            "starts as the dense model"
        )
    if not hasattr(routing, "num_experts"):
        return str(routing.name)
    if routing.name == "expert_choice":
        how = f"each takes its share of a sequence for {routing.capacity:g} per token"
    else:
        how = f"{getattr(routing, 'top_k', 1)} per token"
    parts = [
        f"{routing.name}, {routing.num_experts} experts, {how}, in layers {routing.placement}",
        _weights(routing.renormalize),
        _balance(routing),
    ]
    if routing.z_loss_coefficient:
        parts.append(f"router z-loss x {routing.z_loss_coefficient:g}")
    return "; ".join([*parts, _start(config)])


def _weights(renormalize: str) -> str:
    return {
        "none": "weights as the router gives them",
        "topk": "weights of the chosen sum to 1",
        "chosen": "weights of the experts that chose a token sum to 1",
        "function_preserving": "weights over what the first router gave its choice",
    }[renormalize]


def _balance(routing: Any) -> str:
    if routing.name == "loss_free":
        return f"balanced by a bias, {routing.bias_update_rate:g} per step"
    if routing.name == "expert_choice":
        return "balanced by construction"
    return f"balance loss x {routing.balance_coefficient:g} ({routing.balance_normalization})"


def _start(config: Config) -> str:
    """What is left of the dense model at the start."""
    routing: Any = config.routing
    changes = []
    if routing.name == "expert_choice":
        changes.append("tokens meet none to all of the experts")
    elif routing.renormalize == "none":
        width = config.backbone.architecture.get("hidden_size", 1)
        spread = routing.router_std * width**0.5
        share = chosen_share(routing.num_experts, getattr(routing, "top_k", 1), spread)
        changes.append(f"MLP outputs about x {share:.2f}")
    if routing.biases == "shared_output":
        changes.append("without the routed MLPs' biases")
    if not changes:
        return "starts as the dense model"
    return f"starts unlike the dense model: {', '.join(changes)}"


def chosen_share(experts: int, chosen: int, spread: float) -> float:
    """Mean probability that a router as first drawn gives to its choice, logits of this spread.

    `spread` is the logits' standard deviation: that of the router's weights times the square root
    of the width, for inputs of unit variance, as norms give them.
    """
    random = Random(0)
    total = 0.0
    for _ in range(_DRAWS):
        odds = sorted((exp(random.gauss(0, spread)) for _ in range(experts)), reverse=True)
        total += sum(odds[:chosen]) / sum(odds)
    return total / _DRAWS
