"""Checks of merging: which options belong to which stage, and whether inputs fit the option."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import nearest
from .predecessors import is_planned
from .problems import Problem, Rule, listed, rule
from .schema.merge import Ema, ExpertsFromRuns, GreedySoup, LastK, Ties, Weighted, WhileTraining
from .tasks import INSTRUCTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .experiment import Config
    from .schema.merge import Merge


def inputs(merge: Merge) -> Iterator[tuple[str, str]]:
    """Every model that an option reads, as (dotted key, path)."""
    if isinstance(merge, ExpertsFromRuns):
        for task, path in merge.experts.items():
            yield f"merge.experts.{task}", path
    else:
        for i, path in enumerate(getattr(merge, "inputs", ())):
            yield f"merge.inputs.{i}", path
    if isinstance(merge, Ties):
        yield "merge.base", merge.base


@rule()
def merge_belongs_to_its_stage(config: Config) -> Problem | None:
    """Trained models are merged in stage=merge; averages over training belong to training."""
    merge, stage = config.merge, config.stage.name
    if stage == "merge":
        if merge.name == "none":
            return Problem(
                "stage=merge, but merge=none says nothing to do",
                "add merge=uniform 'merge.inputs=[A,B]'",
            )
        if isinstance(merge, WhileTraining):
            return Problem(
                f"merge={merge.name} averages the weights of a model while it trains; "
                "stage=merge combines models that are trained",
                f"use stage=contrastive merge={merge.name}, or merge=uniform 'merge.inputs=[A,B]'",
            )
        return None
    if merge.name == "none" or (
        isinstance(merge, WhileTraining) and "training" in config.stage.uses
    ):
        return None
    belongs = "a training stage" if isinstance(merge, WhileTraining) else "stage=merge"
    return Problem(
        f"merge={merge.name} has no effect in stage={stage}",
        f"use {belongs}, or take merge out",
    )


@rule("merge")
def merge_inputs_exist(config: Config) -> Problem | None:
    """Every model to be merged must be there."""
    for key, path in inputs(config.merge):
        if not Path(path).expanduser().is_dir() and not is_planned(path):
            key = "merge.inputs" if key.startswith("merge.inputs") else key
            return Problem(f"{key} names {path}, which is not a folder", f"mend the path in {key}")
    return None


@rule("merge")
def weights_fit_the_inputs(config: Config) -> Problem | None:
    """There is one weight per input, and not all are 0."""
    merge = config.merge
    weights = merge.weights if isinstance(merge, Weighted | Ties) else None
    if weights is None or not isinstance(merge, Weighted | Ties):
        return None
    if len(weights) != len(merge.inputs):
        return Problem(
            f"merge.weights has {len(weights)} numbers for {len(merge.inputs)} merge.inputs",
            "give one weight per input",
        )
    if not sum(weights):
        return Problem("merge.weights are all 0", "give at least one input a weight above 0")
    return None


@rule("merge")
def experts_have_tasks(config: Config) -> Problem | None:
    """Experts are called by instruction tasks, and there is more than one."""
    merge = config.merge
    if not isinstance(merge, ExpertsFromRuns):
        return None
    for task in merge.experts:
        if task not in INSTRUCTIONS:
            near = nearest(task, INSTRUCTIONS)
            return Problem(
                f"merge.experts.{task} is no instruction task",
                f"did you mean {near}?" if near else f"tasks: {', '.join(INSTRUCTIONS)}",
            )
    if len(merge.inputs) == 1:
        return Problem(
            "merge.experts names one model, so that all experts would be the same",
            "name a model of its own for at least one task",
        )
    return None


@rule("merge", "evaluation")
def a_soup_has_a_score(config: Config) -> Problem | None:
    """What decides must be measured."""
    merge, evaluation = config.merge, config.evaluation
    if not isinstance(merge, GreedySoup):
        return None
    if evaluation.name == "none":
        return Problem(
            "merge=greedy_soup decides by scores, and evaluation=none measures none",
            "use evaluation=builtin",
        )
    measured = list(getattr(evaluation, "tasks", ()))
    for task in merge.tasks or ():
        if task not in measured:
            return Problem(
                f"merge.tasks names {task}, which is not among evaluation.tasks={listed(measured)}",
                "add it there, or take it out of merge.tasks",
            )
    return None


@rule("merge", "training")
def averages_fit_into_training(config: Config) -> Problem | None:
    """What is averaged lies within the steps of training."""
    merge, steps = config.merge, config.training.steps
    if isinstance(merge, Ema) and merge.start + merge.every > steps:
        return Problem(
            f"merge.start={merge.start} and merge.every={merge.every} leave no update of the "
            f"average in training.steps={steps}",
            f"set merge.start={max(0, steps // 2)} merge.every=1",
        )
    if isinstance(merge, LastK) and (merge.k - 1) * merge.every >= steps:
        reach = (merge.k - 1) * merge.every
        return Problem(
            f"merge.k={merge.k} moments merge.every={merge.every} steps reach back {reach} steps, "
            f"and training.steps={steps}",
            f"set merge.every={max(1, (steps - 1) // (merge.k - 1))} or merge.k=2",
        )
    return None


RULES: tuple[Rule, ...] = (
    merge_belongs_to_its_stage,
    merge_inputs_exist,
    weights_fit_the_inputs,
    experts_have_tasks,
    a_soup_has_a_score,
    averages_fit_into_training,
)
