"""Counting the parameters of a built model, also on the meta device."""

from __future__ import annotations

from torch import nn

from .experts import MixtureOfExperts, TaskExperts


def parameter_counts(model: nn.Module) -> dict[str, int]:
    """Total, active (met by one token) and embedding-table parameters of a model or embedder.

    Agrees with `embedexp.backbone.counts.parameter_counts`, which needs no model. Embedding
    tables count as active.
    """
    modules = list(model.modules())
    total = sum(parameter.numel() for parameter in model.parameters())
    idle = sum(m.idle_parameters for m in modules if isinstance(m, MixtureOfExperts | TaskExperts))
    tables = {id(m.weight): m.weight.numel() for m in modules if isinstance(m, nn.Embedding)}
    return {"total": total, "active": total - idle, "embedding": sum(tables.values())}
