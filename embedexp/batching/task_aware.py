"""Each step draws a task, then fills the batch from that task's datasets by the task's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .heterogeneous import HeterogeneousPlan
from .homogeneous import HomogeneousPlan
from .interleaving import Interleaving
from .permutation import key_of
from .plan import BatchPlan, Rows, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embedexp.config.schema.batching import TaskAware

_RULES: dict[str, Callable[[Sequence[Source], int, int], BatchPlan]] = {
    "homogeneous": HomogeneousPlan,
    "heterogeneous": HeterogeneousPlan,
}


class TaskAwarePlan:
    """Tasks take turns by the summed weights of their datasets (MoTE's TA-CL)."""

    def __init__(
        self, sources: Sequence[Source], size: int, rules: dict[str, str], seed: int
    ) -> None:
        tasks = sorted({source.task for source in sources if source.weight > 0})
        self._members = [
            [i for i, source in enumerate(sources) if source.task == task] for task in tasks
        ]
        self._plans = [
            _RULES[rules[task]]([sources[i] for i in members], size, seed)
            for task, members in zip(tasks, self._members, strict=True)
        ]
        weights = [sum(sources[i].weight for i in members) for members in self._members]
        self._turns = Interleaving(weights, key_of(seed, "tasks", *tasks))

    def __call__(self, step: int) -> list[Rows]:
        """Entries that all have this step's task."""
        (task,), (turn,) = self._turns(np.array([step]))
        members = self._members[task]
        return [
            Rows(rows.task, members[rows.dataset], rows.examples)
            for rows in self._plans[task](int(turn))
        ]


def build(option: TaskAware, sources: Sequence[Source], seed: int) -> TaskAwarePlan:
    """The plan of `batching=task_aware`."""
    return TaskAwarePlan(sources, option.size, option.rules.model_dump(), seed)
