"""Task-aware contrastive learning: an example's task picks the loss and its temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .angle import AngleLoss
from .cosent import CoSENTLoss
from .infonce import InfoNCELoss
from .output import LossOutput

if TYPE_CHECKING:
    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import TaskAwareLoss as Option


class TaskAwareLoss(nn.Module):
    """One loss per training task (MoTE's TA-CL), and their weighted sum where a batch has several.

    Examples of different tasks are never negatives of each other.
    """

    def __init__(self, losses: dict[str, nn.Module], weights: dict[str, float]) -> None:
        super().__init__()
        self.losses, self.weights = nn.ModuleDict(losses), weights

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Sum over tasks of weight x loss of that task's examples.

        Terms carry the task's name and no weight.
        """
        tasks = sorted(set(batch.tasks))
        total = vectors.new_zeros((), dtype=torch.float32)
        terms: dict[str, Tensor] = {}
        for task in tasks:
            part, rows = batch, vectors
            if len(tasks) > 1:
                members = [i for i, name in enumerate(batch.tasks) if name == task]
                part, rows = batch.subset(torch.tensor(members, device=vectors.device), vectors)
            output: LossOutput = self.losses[task](rows, part)
            total = total + self.weights[task] * output.total
            terms |= {f"{task}_{name}": term for name, term in output.terms.items()}
        return LossOutput(total, terms)


def build(option: Option) -> TaskAwareLoss:
    """The loss of `loss=task_aware`."""
    temperatures = option.temperatures.model_dump()
    denominators = option.denominators.model_dump()
    margins = option.false_negative_margins.model_dump()
    losses: dict[str, nn.Module] = {
        task: InfoNCELoss(temperatures[task], denominators[task], margins[task])
        for task in temperatures
    }
    losses["sts"] = {"cosent": CoSENTLoss, "angle": AngleLoss}[option.sts](option.scale)
    return TaskAwareLoss(losses, option.weights.model_dump())
