"""Optimizers and their schedules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

Decay = Annotated[float, Field(ge=0, lt=1)]


class AdamW(Option):
    """AdamW with warm-up and a schedule."""

    name: Literal["adamw"] = field("option")
    learning_rate: float = field("peak learning rate", gt=0)
    weight_decay: float = field("decay of matrices; biases and norms have none", ge=0)
    betas: tuple[Decay, Decay] = field("decay of the moments", strict=False)
    eps: float = field("denominator term", gt=0)
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt"] = field("after warm-up")
    warmup_steps: int = field("from zero to the peak", unit="steps", ge=0)
    max_grad_norm: float | None = field("clip the global gradient norm; null does not", gt=0)


Optimizer = AdamW
