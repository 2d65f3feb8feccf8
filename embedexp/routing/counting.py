"""Counting the parameters of a built model, also on the meta device."""

from __future__ import annotations

from torch import nn

from embedexp.backbone import own_experts
from embedexp.backbone.lora import ADAPTER

from .expert_choice import ChoosingExperts
from .experts import MixtureOfExperts, TaskExperts

ROUTED = (MixtureOfExperts, ChoosingExperts, TaskExperts)


def parameter_counts(model: nn.Module) -> dict[str, int]:
    """Total, active (met by one token, on average) and embedding-table parameters of a model.

    Agrees with `embedexp.backbone.counts.parameter_counts`, which needs no model. Embedding
    tables count as active; adapters do not count, since they are merged on export.
    """
    modules = list(model.modules())
    total = sum(p.numel() for name, p in model.named_parameters() if ADAPTER not in name)
    idle = round(sum(m.idle_parameters for m in modules if isinstance(m, ROUTED)))
    idle += own_experts.idle_parameters(model)
    tables = {id(m.weight): m.weight.numel() for m in modules if isinstance(m, nn.Embedding)}
    return {"total": total, "active": total - idle, "embedding": sum(tables.values())}
