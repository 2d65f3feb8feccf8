"""AdamW, what it decays, and the learning rate over the steps."""

from __future__ import annotations

from math import cos, pi
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from embedexp.config.schema.optimizer import AdamW


def learning_rate_factor(option: AdamW, step: int, total: int) -> float:
    """Share of the peak learning rate at `step` (0-based) of `total`.

    Rises linearly over `warmup_steps` (step 0 already moves), then: constant stays at 1; linear and
    cosine fall to 0 at `total`; inverse_sqrt falls as sqrt(warmup / step).
    """
    warmup = option.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if option.schedule == "constant":
        return 1.0
    if option.schedule == "inverse_sqrt":
        return float((max(warmup, 1) / max(step, 1)) ** 0.5)
    done = (step - warmup) / max(1, total - warmup)
    return 1.0 - done if option.schedule == "linear" else 0.5 * (1.0 + cos(pi * done))


def parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Matrices with weight decay; biases, norms and other vectors without."""
    trained = [p for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]


def build(
    option: AdamW, module: nn.Module, total: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The optimizer and its schedule, to be stepped once per optimizer step."""
    groups = [group for group in parameter_groups(module, option.weight_decay) if group["params"]]
    optimizer = torch.optim.AdamW(
        groups, lr=option.learning_rate, betas=option.betas, eps=option.eps, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: learning_rate_factor(option, step, total)
    )
    return optimizer, schedule
