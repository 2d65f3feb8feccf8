"""Small models, composed from the options in conf/."""

from __future__ import annotations

from typing import Any

import yaml

from embedexp.config.locations import conf_dir
from embedexp.embedding.model_config import ModelConfig

FAMILIES = ("tiny", "tiny_llama")
NO_DROPOUT = {"backbone.dropout": 0.0}


def model_config(
    backbone: str = "tiny",
    routing: str = "dense",
    mask_schedule: str | None = None,
    embedding: str = "mean",
    changes: dict[str, Any] | None = None,
) -> ModelConfig:
    """The named options, with dotted keys changed; by default the family's own mask."""
    native = "causal" if "llama" in backbone else "bidirectional"
    names = {
        "backbone": backbone,
        "routing": routing,
        "mask_schedule": mask_schedule or native,
        "embedding": embedding,
    }
    content: dict[str, Any] = {
        group: yaml.safe_load((conf_dir() / group / f"{name}.yaml").read_text(encoding="utf-8"))
        for group, name in names.items()
    }
    for key, value in (changes or {}).items():
        *path, last = key.split(".")
        place = content
        for part in path:
            place = place[part]
        place[last] = value
    return ModelConfig.model_validate({**content, "seed": 0})
