"""Training: how long, how exactly, and what is kept."""

from __future__ import annotations

from typing import Literal

from .base import Option, field


class Training(Option):
    """Steps, precision, checkpoints and logging."""

    name: str = field("label of these settings")
    steps: int = field("optimizer steps", unit="steps", ge=1)
    precision: Literal["float32", "bf16_mixed"] = field("arithmetic of the forward pass")
    chunk_tokens: int | None = field(
        "tokens embedded at once, null for the whole batch", unit="tokens", ge=1
    )
    checkpoint_every: int = field("steps between checkpoints", unit="steps", ge=1, identity=False)
    keep_checkpoints: int = field("newest checkpoints kept", ge=1, identity=False)
    keep_best: int = field(
        "checkpoints with the lowest training loss kept besides", ge=0, identity=False
    )
    log_every: int = field("steps between logged lines", unit="steps", ge=1, identity=False)
