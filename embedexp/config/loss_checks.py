"""Checks between the loss and what it learns from: data, negatives and the width of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .language_checks import LANGUAGE
from .model_checks import data_tasks, dimensions
from .problems import Problem, Rule, listed, rule, warning
from .schema.loss import Angle, CoSENT, Distillation, EmbeddingLoss, InfoNCE, TaskAwareLoss

if TYPE_CHECKING:
    from .experiment import Config

HARD = ("own_hard_negatives", "other_hard_negatives")
ONE_HARD_NEGATIVE = ("gecko", "gemini")
"""Losses that were published with a single hard negative a query."""

_CLIP_TEMPERATURE = 0.01


@rule("loss")
def loss_tasks_are_possible(config: Config) -> Problem | None:
    """Ranking losses need scores, and the others have no use for them."""
    loss = config.loss
    others = [task for task in getattr(loss, "tasks", ()) if task != "sts"]
    if isinstance(loss, CoSENT | Angle) and others:
        return Problem(
            f"loss={loss.name} learns from scored pairs (sts), not from {others[0]}",
            "set loss.tasks=[sts], or use loss=task_aware",
        )
    if isinstance(loss, InfoNCE | Distillation) and "sts" in loss.tasks:
        return Problem(
            f"loss={loss.name} would take every scored pair of sts for a positive one",
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
    elif hasattr(config.data, "task") and len(loss.tasks) == 1:
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
    """Names of the losses that by default learn from all of these tasks; not of their variants."""
    from .sources import option_files, read_yaml
    from .tree import option_class

    found = {name: read_yaml(path) for name, path in option_files("loss").items()}
    return [
        name
        for name, loss in found.items()
        # Language models' losses have stages of their own, published values a loss of their kind.
        if name not in LANGUAGE
        and (name == "infonce" or option_class("loss", name) is not InfoNCE)
        and name != "distillation"
        and set(tasks) <= set(loss.get("tasks", ()))
    ]


def _denominators(config: Config) -> dict[str, list[str]]:
    """The denominators in use, by dotted key."""
    loss = config.loss
    if isinstance(loss, InfoNCE):
        return {"loss.denominator": list(loss.denominator)}
    if isinstance(loss, Distillation) and loss.infonce.weight:
        return {"loss.infonce.denominator": list(loss.infonce.denominator)}
    if isinstance(loss, TaskAwareLoss):
        return {
            f"loss.denominators.{task}": getattr(loss.denominators, task)
            for task in data_tasks(config)
            if task != "sts"
        }
    return {}


@rule("data", "negatives", "loss")
def denominator_is_not_empty(config: Config) -> Problem | None:
    """A denominator of hard negatives alone holds nothing where there are none."""
    if config.negatives.name != "none":
        return None
    for key, terms in _denominators(config).items():
        if all(term in HARD for term in terms):
            return Problem(
                f"{key} holds only hard negatives, and negatives=none gives none",
                f"add other_positives to {key}, or choose a negatives option",
            )
    return None


@rule("data", "negatives", "loss")
def negatives_reach_the_loss(config: Config) -> Problem | None:
    """Hard negatives that no term of the loss reads are embedded for nothing."""
    loss = config.loss
    if config.negatives.name == "none" or not isinstance(loss, EmbeddingLoss):
        return None
    denominators = _denominators(config)
    read = any(term in HARD for terms in denominators.values() for term in terms)
    if read or isinstance(loss, Distillation):
        return None
    key = next(iter(denominators), None)
    return warning(
        f"negatives={config.negatives.name} has no effect: loss={loss.name} takes no hard negative",
        "use negatives=none" + (f", or add own_hard_negatives to {key}" if key else ""),
    )


@rule("negatives", "loss")
def published_with_one_hard_negative(config: Config) -> Problem | None:
    """Gecko and Gemini have one hard negative a query."""
    count = getattr(config.negatives, "count", 1)
    if config.loss.name not in ONE_HARD_NEGATIVE or count == 1:
        return None
    return warning(
        f"loss={config.loss.name} was published with one hard negative a query, not {count}",
        "set negatives.count=1",
    )


@rule("loss")
def both_directions_have_candidates(config: Config) -> Problem | None:
    """A document looks for its query among the batch: hard negatives are no queries."""
    loss = config.loss
    if not isinstance(loss, InfoNCE):
        return None
    if len(set(loss.directions)) < len(loss.directions):
        return Problem(
            f"loss.directions names {loss.directions[0]} twice",
            f"set loss.directions={listed(list(dict.fromkeys(loss.directions)))}",
        )
    if "document_to_query" in loss.directions and all(t in HARD for t in loss.denominator):
        return Problem(
            "loss.directions has document_to_query, which hard negatives take no part in",
            "add other_positives to loss.denominator, or set loss.directions=[query_to_document]",
        )
    return None


@rule("loss")
def learned_temperature_has_room(config: Config) -> Problem | None:
    """The learned temperature starts where it may be; its floor is idle where it is fixed."""
    loss = config.loss
    if not isinstance(loss, InfoNCE):
        return None
    if loss.learnable_temperature and loss.temperature < loss.min_temperature:
        return Problem(
            f"loss.temperature={loss.temperature:g} is below "
            f"loss.min_temperature={loss.min_temperature:g}",
            f"set loss.min_temperature={loss.temperature:g} or less",
        )
    if not loss.learnable_temperature and loss.min_temperature != _CLIP_TEMPERATURE:
        return Problem(
            f"loss.min_temperature={loss.min_temperature:g} has no effect on a fixed temperature",
            f"set loss.learnable_temperature=true, or loss.min_temperature={_CLIP_TEMPERATURE}",
        )
    return None


@rule("data", "negatives", "loss")
def teacher_has_scores(config: Config) -> Problem | None:
    """Distillation needs a teacher's scores of positives and hard negatives."""
    if not isinstance(config.loss, Distillation):
        return None
    if config.negatives.name == "none":
        return Problem(
            "loss=distillation compares hard negatives, and negatives=none gives none",
            "use negatives=own with data that brings negatives and teacher scores",
        )
    if config.negatives.name in ("label", "random"):
        return Problem(
            f"no teacher has scored negatives={config.negatives.name}, which loss=distillation "
            "learns from",
            "use negatives=own with data that brings negatives and teacher scores",
        )
    columns = getattr(config.data, "columns", None)
    if config.negatives.name == "own" and getattr(columns, "teacher_scores", None) is None:
        key = "set data.columns.teacher_scores=FIELD" if columns else "use data=jsonl"
        return Problem(
            f"loss=distillation, but data={config.data.name} names no teacher scores",
            f"{key}, or use loss=infonce",
        )
    return None


@rule("backbone", "embedding", "loss")
def matryoshka_widths_fit(config: Config) -> Problem | None:
    """Prefixes are of the vectors that the model gives, each once, with a weight each."""
    loss = config.loss
    if not isinstance(loss, EmbeddingLoss):
        return None
    widths, weights = loss.matryoshka.widths, loss.matryoshka.weights
    if widths is None:
        if weights is None:
            return None
        return Problem(
            "loss.matryoshka.weights has no effect without loss.matryoshka.widths",
            "set loss.matryoshka.widths, or loss.matryoshka.weights=null",
        )
    if not widths or len(set(widths)) < len(widths):
        return Problem(
            f"loss.matryoshka.widths={widths} must be distinct and at least one",
            f"set loss.matryoshka.widths={sorted(set(widths), reverse=True) or 'null'}",
        )
    if weights is not None and len(weights) != len(widths):
        return Problem(
            f"loss.matryoshka has {len(widths)} widths, but {len(weights)} weights",
            "give one weight for each width, or set loss.matryoshka.weights=null",
        )
    full = dimensions(config)
    if config.embedding.name == "moee" or not full or max(widths) == full:
        return None
    if max(widths) > full:
        return Problem(
            f"loss.matryoshka.widths names {max(widths)}, more than the {full} dimensions",
            f"set widths of at most {full}",
        )
    return warning(
        f"loss.matryoshka.widths leaves out the full width of {full}, which then isn't trained",
        f"add {full} to loss.matryoshka.widths, or set embedding.width={max(widths)}",
    )


RULES: tuple[Rule, ...] = (
    loss_tasks_are_possible,
    loss_learns_from_the_data,
    denominator_is_not_empty,
    negatives_reach_the_loss,
    published_with_one_hard_negative,
    both_directions_have_candidates,
    learned_temperature_has_room,
    teacher_has_scores,
    matryoshka_widths_fit,
)
