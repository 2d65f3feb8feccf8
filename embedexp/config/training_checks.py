"""Checks between data, batching, negatives, loss, optimizer and training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UserError
from .model_checks import data_tasks
from .problems import Problem, Rule, listed, rule, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .experiment import Config
    from .schema.batching import Batching

HARD = ("own_hard_negatives", "other_hard_negatives")


@rule("data")
def data_files_exist(config: Config) -> Problem | None:
    """What the data reads must be there before anything starts."""
    data = config.data
    if data.name == "jsonl":
        return _unreadable(data.path, "data.path")
    if data.name == "debian" and not Path(data.lists).expanduser().is_dir():
        return Problem(
            f"data.lists={data.lists} is not a folder",
            "data=debian needs a Debian machine's package lists; set data.lists to their folder",
        )
    return None


@rule("negatives")
def negatives_file_exists(config: Config) -> Problem | None:
    """The mined file must be there before anything starts."""
    negatives = config.negatives
    if negatives.name == "mined_file":
        return _unreadable(negatives.path, "negatives.path")
    return None


def _unreadable(path: str, key: str) -> Problem | None:
    """A path that leads to no JSON-lines file, with the nearest name beside it."""
    from embedexp.data.lines import existing

    try:
        existing(path, key)
    except UserError as error:
        return Problem(f"{key}={path}: {error.what}", error.hint or f"mend the path in {key}")
    return None


@rule("data", "negatives")
def own_negatives_exist(config: Config) -> Problem | None:
    """negatives=own needs data that brings some."""
    if config.negatives.name != "own":
        return None
    if config.data.name != "jsonl":
        return Problem(
            f"negatives=own, but data={config.data.name} has no hard negatives of its own",
            "use negatives=none, or negatives=mined_file",
        )
    if config.data.columns.negatives is None:
        return Problem(
            "negatives=own, but data.columns.negatives names no field",
            "set data.columns.negatives=FIELD, or use negatives=none",
        )
    return None


@rule("data", "negatives")
def own_negatives_are_used(config: Config) -> Problem | None:
    """Negatives that the data brings and nobody reads are worth a word."""
    data = config.data
    if data.name == "jsonl" and data.columns.negatives and config.negatives.name == "none":
        return warning(
            f"data.columns.negatives={data.columns.negatives} has no effect with negatives=none",
            "use negatives=own",
        )
    return None


@rule("data")
def scores_have_a_column(config: Config) -> Problem | None:
    """Graded pairs need grades."""
    data = config.data
    if data.name != "jsonl":
        return None
    if data.task == "sts" and data.columns.score is None:
        return Problem(
            "data.task=sts, but data.columns.score names no field", "set data.columns.score=FIELD"
        )
    if data.task != "sts" and data.columns.score is not None:
        return warning(
            f"data.columns.score={data.columns.score} has no effect with data.task={data.task}",
            "set data.task=sts, or data.columns.score=null",
        )
    return None


@rule("loss")
def loss_tasks_are_possible(config: Config) -> Problem | None:
    """CoSENT needs scores, and InfoNCE has no use for them."""
    loss = config.loss
    graded = [task for task in loss.tasks if task == "sts"]
    others = [task for task in loss.tasks if task != "sts"]
    if loss.name == "cosent" and others:
        return Problem(
            f"loss=cosent learns from scored pairs (sts), not from {others[0]}",
            "set loss.tasks=[sts], or use loss=task_aware",
        )
    if loss.name == "infonce" and graded:
        return Problem(
            "loss=infonce would take every scored pair of sts for a positive one",
            "use loss=task_aware, or take sts out of loss.tasks",
        )
    return None


@rule("data", "loss")
def loss_learns_from_the_data(config: Config) -> Problem | None:
    """Every kind of example in the data must be one that the loss can learn from."""
    tasks, loss = data_tasks(config), config.loss
    foreign = [task for task in tasks if task not in loss.tasks]
    if not foreign:
        return None
    common = [task for task in tasks if task in loss.tasks]
    if config.data.name == "builtin":
        mend = f"set data.tasks={listed(common or loss.tasks)}"
    elif config.data.name == "jsonl" and len(loss.tasks) == 1:
        mend = f"set data.task={loss.tasks[0]} if that is what the pairs teach"
    else:
        mend = ""
    others = [f"loss={name}" for name in _losses_for(tasks) if name != loss.name]
    return Problem(
        f"loss={loss.name} cannot learn from {', '.join(foreign)}, "
        f"which data={config.data.name} teaches here",
        ", or ".join(filter(None, [mend, "use " + " or ".join(others) if others else ""])),
    )


def _losses_for(tasks: list[str]) -> list[str]:
    """Names of the losses that by default learn from all of these tasks."""
    from .sources import option_files, read_yaml

    found = {name: read_yaml(path) for name, path in option_files("loss").items()}
    return [name for name, loss in found.items() if set(tasks) <= set(loss.get("tasks", ()))]


@rule("data", "batching", "loss")
def task_aware_loss_sees_one_task(config: Config) -> Problem | None:
    """The task of a batch is defined only where a batch holds one task."""
    if config.loss.name != "task_aware" or config.batching.name != "heterogeneous":
        return None
    if len(data_tasks(config)) < 2:
        return None
    return Problem(
        "loss=task_aware needs batches of one task, and batching=heterogeneous mixes tasks",
        "use batching=task_aware",
    )


@rule("data", "negatives", "loss")
def denominator_is_not_empty(config: Config) -> Problem | None:
    """A denominator of hard negatives alone holds nothing where there are none."""
    loss = config.loss
    if config.negatives.name != "none" or loss.name == "cosent":
        return None
    if loss.name == "infonce":
        denominators = {"loss.denominator": loss.denominator}
    else:
        denominators = {
            f"loss.denominators.{task}": getattr(loss.denominators, task)
            for task in data_tasks(config)
            if task != "sts"
        }
    for key, terms in denominators.items():
        if all(term in HARD for term in terms):
            return Problem(
                f"{key} holds only hard negatives, and negatives=none gives none",
                f"add other_positives to {key}, or choose a negatives option",
            )
    return None


@rule("optimizer", "training")
def warmup_ends(config: Config) -> Problem | None:
    """The peak learning rate must be reached."""
    warmup, steps = config.optimizer.warmup_steps, config.training.steps
    if warmup > steps:
        return warning(
            f"training ends after {steps} steps, before its {warmup} steps of warm-up do",
            f"set optimizer.warmup_steps={steps // 10}",
        )
    return None


@rule("data", "batching")
def batches_can_be_filled(config: Config) -> Problem | None:
    """A batch cannot hold more examples than there are to choose from."""
    from embedexp.data import describe

    datasets = describe(config.data)
    if not datasets:
        return Problem(
            f"data={config.data.name} gives no training example",
            "give a dataset that is in use a weight above 0",
        )
    return unfilled(config.batching, datasets)


def unfilled(batching: Batching, datasets: Sequence[tuple[str, str, int | None]]) -> Problem | None:
    """What is wrong with batches from `datasets`: name, task and examples (None: not known)."""
    size, rules = batching.size, getattr(batching, "rules", None)
    pools: dict[str, int | None] = {}  # None where counting would mean reading the data
    for name, task, examples in datasets:
        if batching.name == "heterogeneous":
            name = "all datasets"
        elif rules is not None and getattr(rules, task) == "heterogeneous":
            name = f"task {task}"
        so_far = pools.get(name, 0)
        pools[name] = None if examples is None or so_far is None else so_far + examples
    for name, examples in pools.items():
        if examples is not None and size > examples:
            return Problem(
                f"batching.size={size} is more than the {examples} training examples of {name}",
                f"set batching.size={max(1, examples)} or less",
            )
    return None


RULES: tuple[Rule, ...] = (
    data_files_exist,
    negatives_file_exists,
    own_negatives_exist,
    own_negatives_are_used,
    scores_have_a_column,
    loss_tasks_are_possible,
    loss_learns_from_the_data,
    task_aware_loss_sees_one_task,
    denominator_is_not_empty,
    warmup_ends,
)
COUNTING_RULES: tuple[Rule, ...] = (batches_can_be_filled,)
