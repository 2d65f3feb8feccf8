"""Each step draws a task, then fills the batch from that task's datasets by the task's rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .heterogeneous import HeterogeneousPlan
from .homogeneous import HomogeneousPlan
from .interleaving import Interleaving
from .permutation import key_of
from .plan import Arrange, BatchPlan, Rows, Source, as_drawn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from embedexp.config.schema.batching import TaskAware

_RULES: dict[str, Callable[[Sequence[Source], int, int, Arrange], BatchPlan]] = {
    "homogeneous": HomogeneousPlan,
    "heterogeneous": HeterogeneousPlan,
}


class OneTask:
    """A plan over the datasets of one task, under the indices that they have among all."""

    def __init__(
        self,
        sources: Sequence[Source],
        task: str,
        size: int,
        rule: str,
        seed: int,
        arrange: Arrange = as_drawn,
    ) -> None:
        self._members = [i for i, source in enumerate(sources) if source.task == task]
        members = [sources[i] for i in self._members]
        self.weight = sum(source.weight for source in members)
        self._plan = _RULES[rule](members, size, seed, arrange)

    def __call__(self, turn: int) -> list[Rows]:
        """Batch number `turn` of the task."""
        return [
            Rows(rows.task, self._members[rows.dataset], rows.examples) for rows in self._plan(turn)
        ]


def tasks_of(sources: Sequence[Source]) -> list[str]:
    """The tasks of the datasets that are drawn from, in alphabetical order."""
    return sorted({source.task for source in sources if source.weight > 0})


class TaskAwarePlan:
    """Tasks take turns by the summed weights of their datasets (MoTE's TA-CL)."""

    def __init__(
        self,
        sources: Sequence[Source],
        size: int,
        rules: dict[str, str],
        seed: int,
        arrange: Arrange = as_drawn,
    ) -> None:
        tasks = tasks_of(sources)
        self._plans = [OneTask(sources, task, size, rules[task], seed, arrange) for task in tasks]
        weights = [plan.weight for plan in self._plans]
        self._turns = Interleaving(weights, key_of(seed, "tasks", *tasks))

    def __call__(self, step: int) -> list[Rows]:
        """Entries that all have this step's task."""
        task, turn = self._turns.at(step)
        return self._plans[task](turn)


def build(
    option: TaskAware, sources: Sequence[Source], seed: int, arrange: Arrange = as_drawn
) -> TaskAwarePlan:
    """The plan of `batching=task_aware`."""
    return TaskAwarePlan(sources, option.size, option.rules.model_dump(), seed, arrange)
