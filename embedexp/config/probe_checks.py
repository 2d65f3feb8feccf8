"""Checks of stage=probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import nearest
from .model_checks import positions
from .probe_data import in_use
from .problems import Problem, Rule, rule

if TYPE_CHECKING:
    from .experiment import Config
    from .schema.probe import ProbeTask

FITTING = {
    "classification": ("accuracy", "f1", "matthews"),
    "choice": ("accuracy",),
    "regression": ("pearson", "spearman"),
}
"""Measures by the kind of a task."""


@rule("stage")
def probed_tasks_exist(config: Config) -> Problem | None:
    """Names in `only` and `starts_from` are tasks, and what is started from is trained, too."""
    stage = config.stage
    if stage.name != "probe":
        return None
    for name in stage.only or ():
        if name not in stage.tasks:
            near = nearest(name, list(stage.tasks))
            return Problem(
                f"stage.only names {name}, which is none of the tasks",
                f"did you mean {near}?" if near else f"choose from {', '.join(stage.tasks)}",
            )
    for name, task in in_use(stage).items():
        before = task.starts_from
        if before is None:
            continue
        if before not in in_use(stage):
            there = before in stage.tasks
            fix = f"add {before} to stage.only" if there else "name one of the tasks"
            return Problem(
                f"{name} starts from the model of {before}, which is not trained here",
                f"{fix}, or set stage.tasks.{name}.starts_from=null",
            )
        if stage.tasks[before].starts_from is not None:
            return Problem(
                f"{name} starts from {before}, which itself starts from "
                f"{stage.tasks[before].starts_from}",
                f"set stage.tasks.{name}.starts_from to a task that starts from the backbone",
            )
    return None


@rule("stage")
def probed_tasks_make_sense(config: Config) -> Problem | None:
    """Each task has what its kind needs, and nothing that its kind leaves without effect."""
    stage = config.stage
    if stage.name != "probe":
        return None
    return next((p for n, task in stage.tasks.items() if (p := _fault(n, task)) is not None), None)


def _fault(name: str, task: ProbeTask) -> Problem | None:
    where, fitting = f"stage.tasks.{name}", FITTING[task.kind]
    for metric in task.metrics:
        if metric not in fitting:
            return Problem(
                f"{where}.metrics has {metric}, which kind={task.kind} has not",
                f"choose from {', '.join(fitting)}",
            )
    if (task.kind == "choice") != (task.choices is not None):
        missing = task.choices is None
        return Problem(
            f"{where} is of kind {task.kind} and names {'no' if missing else ''} choices",
            f"name the answers' columns in {where}.choices" if missing else "set choices to null",
        )
    if task.labels is not None and task.kind != "classification":
        return Problem(
            f"{where}.labels has no effect with kind={task.kind}", f"set {where}.labels=null"
        )
    if "f1" in task.metrics and task.labels is not None and len(task.labels) != 2:
        return Problem(
            f"{where}.metrics has f1, which is of the second of two classes; there are "
            f"{len(task.labels)}",
            "use accuracy",
        )
    return None


@rule("stage", "backbone")
def probed_texts_fit(config: Config) -> Problem | None:
    """A table of learned positions ends somewhere; one vector must have seen the whole text."""
    stage = config.stage
    if stage.name != "probe":
        return None
    longest = positions(config.backbone)
    if longest is not None and stage.max_tokens > longest:
        return Problem(
            f"stage.max_tokens={stage.max_tokens}, but {config.backbone.name} has {longest} "
            "positions",
            f"set stage.max_tokens={longest} or less",
        )
    if config.mask_schedule.name == "causal" and stage.pooling == "cls":
        return Problem(
            "stage.pooling=cls reads the first token, which sees no other under a causal mask",
            "set stage.pooling=last_token",
        )
    return None


RULES: tuple[Rule, ...] = (probed_tasks_exist, probed_tasks_make_sense, probed_texts_fit)
