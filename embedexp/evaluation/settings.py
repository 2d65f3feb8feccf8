"""What, beside the weights, makes a model's vectors what they are."""

from __future__ import annotations

import hashlib
from typing import Any

GROUPS = ("embedding", "routing", "mask_schedule")
"""Config groups that act when a text is encoded; of the backbone, its architecture does."""


def settings(embedder: object) -> dict[str, Any]:
    """Prompts, lengths, pooling, routing, mask, architecture, tokenizer, type of the weights."""
    config = getattr(embedder, "config", None)
    found: dict[str, Any] = {}
    if config is not None:
        found |= {group: getattr(config, group).model_dump(mode="json") for group in GROUPS}
        found["architecture"] = dict(config.backbone.architecture)
    tokenizer = getattr(embedder, "tokenizer", None)
    if tokenizer is not None:
        found["tokenizer"] = tokenizer_hash(tokenizer)
    parameters = getattr(embedder, "parameters", None)
    if parameters is not None:
        found["dtype"] = sorted({str(p.dtype).removeprefix("torch.") for p in parameters()})
    return found


def tokenizer_hash(tokenizer: Any) -> str:
    """A hash of everything that a tokenizer does to a text, 16 hexadecimal digits."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    # What was last asked of it (truncation, padding) is no property of it.
    content = (
        "".join(str(part) for part in sorted(tokenizer.get_vocab().items()))
        if backend is None
        else _fixed(backend.to_str())
    )
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _fixed(serialised: str) -> str:
    """A serialised tokenizer without its passing state."""
    import json

    content = json.loads(serialised)
    return json.dumps({k: v for k, v in content.items() if k not in ("truncation", "padding")})
