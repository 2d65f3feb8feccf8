"""Every loss, with and without hard negatives, in every batching; and the models with experts.

By default every two options meet in some comparison; with EMBEDEXP_ALL_CASES=1 all do.
"""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import OmegaConf

from embedexp.config.locations import conf_dir
from embedexp.config.tree import option_class

from .cases import TASKS, Case, composed, options
from .covering import choose
from .worker import KINDS, WAYS, WORLDS, Way

LANGUAGE_MODELS = ("mlm", "causal_lm", "sft")  # their losses are not of vectors
VARIANTS = ("as it is", "learnable temperature", "matryoshka")
MODELS = {
    "dense": [],
    "moe": ["routing=moe", "routing.num_experts=4", "routing.z_loss_coefficient=0.05"],
    "loss_free": ["routing=loss_free", "routing.num_experts=4"],
    "expert_choice": ["routing=expert_choice", "routing.z_loss_coefficient=0.05"],
    "mote": ["routing=mote"],
    "projection": ["embedding.projection=24"],
    "all layers": ["embedding.layers=all"],
    "moee": ["embedding=moee", "routing=moe", "routing.num_experts=4"],
}
BATCHES = ("many tasks", "one task", "one other task", "fewer examples than ranks")
SIZE = 9  # over 2 and 4 ranks: ragged
FEW = 2  # fewer than 4 ranks, and two of them have none


@dataclass(frozen=True)
class Run:
    """A case and how its gradient is taken."""

    case: Case
    way: Way

    def __str__(self):
        return f"{self.case.name}, {self.way}"


def runs():
    """All comparisons, by name."""
    table = [*_of_losses(), *_of_models()]
    return {str(run): run for run in table}


def embedding_losses():
    """The options of the folder `loss` that learn from vectors, by name."""
    return {name: option("loss", name) for name in options("loss") if name not in LANGUAGE_MODELS}


def _of_losses():
    """The losses, each in every batching."""
    losses = embedding_losses()
    ways = {name: option("batching", name) for name in options("batching")}
    factors = {
        "loss": list(losses),
        "variant": VARIANTS,
        "negatives": (False, True),
        "batching": list(ways),
        "kind": KINDS,
        "cached": (False, True),
        "world": WORLDS,
    }
    dense = composed()
    for row in choose(factors, lambda row: _has_something_to_learn(losses[row["loss"]], row)):
        loss = losses[row["loss"]]
        batching = sized(ways[row["batching"]], SIZE, loss.tasks)
        words = "hard negatives" if row["negatives"] else "pairs"
        name = ", ".join([row["loss"], row["variant"], words, row["batching"]])
        case = Case(name, dense, varied(loss, row["variant"]), batching, row["negatives"])
        yield Run(case, Way(row["kind"], row["cached"], row["world"]))


def _of_models():
    """The models, of whose experts some see nothing in a batch of one task."""
    factors = {
        "model": list(MODELS),
        "batch": BATCHES,
        "way": WAYS,  # as one: ranks without an example are met by each of them
    }
    configs = {
        name: composed(*more, *(["routing.placement=every"] if "routing" in str(more) else []))
        for name, more in MODELS.items()
    }
    losses = {name: option("loss", name) for name in ("infonce", "task_aware")}
    for row in choose(factors):
        few = row["batch"] == BATCHES[-1]
        one = "one" in row["batch"]
        batching = "homogeneous" if few else "task_aware" if one else "heterogeneous"
        case = Case(
            f"{row['model']}, {row['batch']}",
            configs[row["model"]],
            losses["infonce" if few else "task_aware"],
            sized(option("batching", batching), FEW if few else SIZE),
            negatives=True,
            step=int("other" in row["batch"]),
        )
        yield Run(case, row["way"])


def option(group, name):
    """An option as its file has it; rules about the rest of an experiment play no role."""
    values = OmegaConf.to_container(OmegaConf.load(conf_dir() / group / f"{name}.yaml"))
    return option_class(group, name).model_validate(values)


def sized(batching, size, tasks=TASKS):
    """A batching option with `size` examples per step, of `tasks`."""
    if "sizes" in type(batching).model_fields:
        sizes = {task: size // len(tasks) if task in tasks else None for task in TASKS}
        return batching.model_copy(update={"sizes": batching.sizes.model_copy(update=sizes)})
    return batching.model_copy(update={"size": size})


def varied(loss, variant):
    """A loss with its temperature learned, or over several widths."""
    if variant == "learnable temperature":
        return loss.model_copy(update={"learnable_temperature": True})
    if variant == "matryoshka":
        widths = loss.matryoshka.model_copy(update={"widths": [4, 16, 8]})
        return loss.model_copy(update={"matryoshka": widths})
    return loss


def _has_something_to_learn(loss, row):
    """Whether a loss has the variant, and something to learn from the batch."""
    if row["variant"] == "learnable temperature" and not hasattr(loss, "learnable_temperature"):
        return False
    if row["negatives"]:
        return loss.tasks != ["sts"]  # scored pairs have none
    terms = set(getattr(loss, "denominator", ["other_positives"]))
    from_pairs = terms - {"own_hard_negatives", "other_hard_negatives"}
    return bool(from_pairs) and not hasattr(loss, "form")
