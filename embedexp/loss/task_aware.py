"""Task-aware contrastive learning: the batch's task picks the loss and its temperature."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from .cosent import CoSENTLoss
from .infonce import InfoNCELoss
from .output import LossOutput

if TYPE_CHECKING:
    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import TaskAwareLoss as Option


class TaskAwareLoss(nn.Module):
    """One loss per training task (MoTE's TA-CL)."""

    def __init__(self, losses: dict[str, nn.Module]) -> None:
        super().__init__()
        self.losses = nn.ModuleDict(losses)

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """The loss of the batch's task; its terms carry the task's name.

        Raises:
            ValueError: if the batch mixes tasks.
        """
        tasks = set(batch.tasks)
        if len(tasks) != 1:
            raise ValueError(f"a task-aware loss needs one task a batch, not {sorted(tasks)}")
        (task,) = tasks
        output: LossOutput = self.losses[task](vectors, batch)
        return LossOutput(output.total, {f"{task}_{k}": v for k, v in output.terms.items()})


def build(option: Option) -> TaskAwareLoss:
    """The loss of `loss=task_aware`."""
    temperatures = option.temperatures.model_dump()
    denominators = option.denominators.model_dump()
    losses: dict[str, nn.Module] = {
        task: InfoNCELoss(temperatures[task], denominators[task]) for task in temperatures
    }
    losses["sts"] = CoSENTLoss(option.scale)
    return TaskAwareLoss(losses)
