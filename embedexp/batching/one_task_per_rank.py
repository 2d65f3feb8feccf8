"""Every step holds a sub-batch of each task, so that no step pulls towards one task alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .plan import Arrange, Rows, Source, as_drawn
from .task_aware import OneTask, tasks_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embedexp.config.schema.batching import OneTaskPerRank


class OneTaskPerRankPlan:
    """One sub-batch per task, of the task's own size (Conan v1's cross-GPU balance).

    The entries of a task are consecutive, so that whole tasks can be given to ranks.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        sizes: Mapping[str, int | None],
        rules: Mapping[str, str],
        seed: int,
        arrange: Arrange = as_drawn,
    ) -> None:
        self._plans: list[OneTask] = []
        for task in tasks_of(sources):
            size = sizes[task]
            if size is None:
                raise ValueError(f"there are examples of {task}, but no size for its sub-batch")
            self._plans.append(OneTask(sources, task, size, rules[task], seed, arrange))

    def __call__(self, step: int) -> list[Rows]:
        """The sub-batch of every task, task by task."""
        return [rows for plan in self._plans for rows in plan(step)]


def build(
    option: OneTaskPerRank, sources: Sequence[Source], seed: int, arrange: Arrange = as_drawn
) -> OneTaskPerRankPlan:
    """The plan of `batching=one_task_per_rank`."""
    sizes, rules = option.sizes.model_dump(), option.rules.model_dump()
    return OneTaskPerRankPlan(sources, sizes, rules, seed, arrange)
