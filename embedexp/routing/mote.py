"""Mixture of task experts: the instruction's task picks the expert for a whole sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest
from embedexp.config.tasks import INSTRUCTIONS

from .experts import TaskExperts
from .placement import replace, routed_blocks

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import MoTE

    from .context import RoutingContext


def apply(
    option: MoTE,
    model: PreTrainedModel,
    context: RoutingContext,
    generator: torch.Generator | None = None,
) -> None:
    """Give each task expert its own MLP and norms, in place (MoTE, section 3 and figure 2b).

    Attention and embeddings stay shared; there is no router and no balance loss.

    Raises:
        UserError: an unknown task, an expert without a task, or a bad placement.
    """
    experts = max(experts_by_task(option)) + 1
    for _, block, family in routed_blocks(model, option.placement):
        for path in (family.mlp, *family.norms):
            replace(
                block,
                path,
                lambda dense: TaskExperts(dense, num_experts=experts, context=context),
            )
        context.watch(block)


def experts_by_task(option: MoTE) -> list[int]:
    """The expert of each instruction task, in the order of task ids; -1 for tasks without one.

    Raises:
        UserError: an unknown task, or an expert without a task.
    """
    where = "routing.experts"
    for task in option.experts:
        if task not in INSTRUCTIONS:
            close = nearest(task, INSTRUCTIONS)
            raise UserError(
                f"unknown instruction task {task}",
                where=where,
                hint=f"did you mean {close}?" if close else f"tasks: {', '.join(INSTRUCTIONS)}",
            )
    used = set(option.experts.values())
    if not used:
        raise UserError("no task has an expert", where=where, hint="add routing.experts.TASK=0")
    idle = set(range(max(used) + 1)) - used
    if idle:
        raise UserError(
            f"no task uses expert {min(idle)}",
            where=where,
            hint="number the experts 0, 1, 2, ... without gaps",
        )
    return [option.experts.get(task, -1) for task in INSTRUCTIONS]
