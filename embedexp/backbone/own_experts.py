"""The experts that a family brings itself, as transformers stores them: stacked matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def idle_parameters(model: nn.Module) -> int:
    """Parameters of a model's own experts that a single token does not meet; 0 without any."""
    idle = 0
    for module in model.modules():
        router, experts = getattr(module, "gate", None), getattr(module, "experts", None)
        stacked = getattr(experts, "gate_up_proj", None)
        chosen = getattr(router, "top_k", None)
        if experts is None or stacked is None or chosen is None:
            continue
        one = sum(p.numel() for p in experts.parameters()) // len(stacked)
        idle += (len(stacked) - chosen) * one
    return idle
