"""Checks between data, batching, negatives, loss, optimizer and training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UserError
from .model_checks import data_tasks
from .predecessors import data_are_planned, is_planned
from .problems import Problem, Rule, rule, warning
from .schema.loss import Angle, CoSENT, EmbeddingLoss
from .schema.negatives import Dynamic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .experiment import Config
    from .schema.batching import Batching


@rule("negatives")
def negatives_file_exists(config: Config) -> Problem | None:
    """The mined file must be there before anything starts."""
    from embedexp.data import mined

    path = getattr(config.negatives, "path", None)
    if path is not None and not is_planned(path):
        try:
            mined.locate(path, "negatives.path")
        except UserError as error:
            what = f"negatives.path={path}: {error.what}"
            return Problem(what, error.hint or "mend the path in negatives.path")
    return None


@rule("negatives")
def candidates_can_take_turns(config: Config) -> Problem | None:
    """A pool that holds no more than is in use has nothing to replace it with."""
    negatives = config.negatives
    if not isinstance(negatives, Dynamic):
        return None
    least = negatives.skip + negatives.count + (negatives.count if negatives.whole_set else 1)
    if negatives.pool >= least:
        return None
    return Problem(
        f"negatives.pool={negatives.pool} leaves no candidate to replace one of "
        f"negatives.count={negatives.count}"
        + (f" after negatives.skip={negatives.skip}" if negatives.skip else ""),
        f"set negatives.pool={least} or more",
    )


@rule("batching", "loss")
def several_tasks_need_their_losses(config: Config) -> Problem | None:
    """A step of several tasks is the sum of their losses."""
    if config.batching.name != "one_task_per_rank" or config.loss.name == "task_aware":
        return None
    return Problem(
        f"batching=one_task_per_rank puts several tasks into a step, and loss={config.loss.name} "
        "takes them for one",
        "use loss=task_aware, or batching=task_aware for one task a step",
    )


@rule("data", "batching")
def sub_batches_fit_the_tasks(config: Config) -> Problem | None:
    """Every task of the data has a sub-batch, and every sub-batch a task."""
    if config.batching.name != "one_task_per_rank":
        return None
    taught, sizes = data_tasks(config), config.batching.sizes.model_dump()
    without_size = [task for task in taught if sizes[task] is None]
    if without_size:
        keys = " ".join(f"batching.sizes.{task}=NUMBER" for task in without_size)
        return Problem(
            f"the data teaches {' and '.join(without_size)}, "
            f"but batching.sizes.{without_size[0]} is null",
            f"set {keys}, or take the task out of the data",
        )
    untaught = [task for task, size in sizes.items() if size is not None and task not in taught]
    if untaught:
        return Problem(
            f"batching.sizes.{untaught[0]}={sizes[untaught[0]]}, "
            f"but the data teaches no {' and no '.join(untaught)}",
            f"set {' '.join(f'batching.sizes.{task}=null' for task in untaught)}",
        )
    return None


@rule("data", "batching")
def sampling_has_sizes(config: Config) -> Problem | None:
    """Languages count where there is a temperature, and data that say which they are in."""
    sampling = getattr(config.batching, "sampling", None)
    if sampling is None or sampling.by != "language":
        return None
    if sampling.temperature is None:
        return Problem(
            "batching.sampling.by=language has no effect without batching.sampling.temperature",
            "set batching.sampling.temperature=0.3, or batching.sampling.by=dataset",
        )
    parts = config.data.sources.values() if config.data.name == "mixture" else ()
    sources = [part.data for part in parts if not part.language] if parts else [config.data]
    if any(getattr(getattr(data, "columns", None), "language", None) for data in sources):
        return Problem(
            "batching.sampling.by=language draws datasets, each of one language, but "
            "data.columns.language says that the rows of one differ",
            "make a source of data=mixture of each language (data.sources.NAME.language), or use "
            "batching.sampling.by=dataset",
        )
    if any(part.language for part in parts):
        return None
    return Problem(
        f"batching.sampling.by=language, but data={config.data.name} says of no dataset "
        "which language it is in",
        "use data=mixture with data.sources.NAME.language, or batching.sampling.by=dataset",
    )


@rule("negatives", "batching", "loss")
def batches_hold_something_to_compare(config: Config) -> Problem | None:
    """The loss of a single example without hard negatives is 0, whatever the model."""
    loss, batching = config.loss, config.batching
    if config.stage.name != "contrastive" or not isinstance(loss, EmbeddingLoss):
        return None
    ranked = isinstance(loss, CoSENT | Angle)
    sizes = getattr(batching, "sizes", None)
    by_task = {"": batching.size} if sizes is None else sizes.model_dump()
    for task, size in by_task.items():
        if size == 1 and (config.negatives.name == "none" or ranked or task == "sts"):
            key = f"batching.sizes.{task}" if task else "batching.size"
            return Problem(
                f"{key}=1 leaves an example nothing to be compared with",
                f"set {key}=2 or more" + ("" if ranked or task == "sts" else ", or give negatives"),
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

    if config.stage.name in ("mlm", "causal_lm"):
        return None  # blocks are counted when they are made, and may repeat
    if data_are_planned(config):
        return None
    datasets = describe(config.data)
    if not datasets:
        return Problem(
            f"data={config.data.name} gives no training example",
            "give a dataset that is in use a weight above 0",
        )
    return unfilled(config.batching, datasets)


def unfilled(batching: Batching, datasets: Sequence[tuple[str, str, int | None]]) -> Problem | None:
    """What is wrong with batches from `datasets`: name, task and examples (None: not known)."""
    rules, sizes = getattr(batching, "rules", None), getattr(batching, "sizes", None)
    pools: dict[str, int | None] = {}  # None where counting would mean reading the data
    keys: dict[str, str] = {}
    for name, task, examples in datasets:
        if batching.name == "heterogeneous":
            name = "all datasets"
        elif rules is not None and getattr(rules, task) == "heterogeneous":
            name = f"task {task}"
        so_far = pools.get(name, 0)
        pools[name] = None if examples is None or so_far is None else so_far + examples
        keys[name] = "batching.size" if sizes is None else f"batching.sizes.{task}"
    for name, examples in pools.items():
        key = keys[name]
        size = batching.size if sizes is None else getattr(sizes, key.rpartition(".")[2]) or 0
        if examples is not None and size > examples:
            return Problem(
                f"{key}={size} is more than the {examples} training examples of {name}",
                f"set {key}={max(1, examples)} or less",
            )
    return None


RULES: tuple[Rule, ...] = (
    negatives_file_exists,
    candidates_can_take_turns,
    several_tasks_need_their_losses,
    sub_batches_fit_the_tasks,
    sampling_has_sizes,
    batches_hold_something_to_compare,
    warmup_ends,
)
COUNTING_RULES: tuple[Rule, ...] = (batches_can_be_filled,)
