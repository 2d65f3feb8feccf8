"""Checks of the data: what it reads is there, and its columns serve the experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UserError
from .predecessors import data_are_planned
from .problems import Problem, Rule, rule, warning
from .schema.negatives import Dynamic

if TYPE_CHECKING:
    from .experiment import Config

TEXT_STAGES = ("mlm", "causal_lm", "tokenizer")
"""What learns from plain texts."""


def columns(config: Config) -> Any:
    """`data.columns`, or None where the data has no columns to be named."""
    return getattr(config.data, "columns", None)


@rule("data")
def data_files_exist(config: Config) -> Problem | None:
    """What the data reads must be there before anything starts."""
    from embedexp.data import describe

    data = config.data
    if data.name == "debian" and not Path(data.lists).expanduser().is_dir():
        return Problem(
            f"data.lists={data.lists} is not a folder",
            "data=debian needs a Debian machine's package lists; set data.lists to their folder",
        )
    if not hasattr(data, "bad_rows") or data_are_planned(config):
        return None
    try:
        describe(data)
    except UserError as error:
        where = f"{error.where}: " if error.where else ""
        return Problem(f"{where}{error.what}", error.hint or "mend it")
    return None


@rule("data")
def columns_make_examples(config: Config) -> Problem | None:
    """The named columns make one shape, and it serves the task."""
    named, task = columns(config), getattr(config.data, "task", None)
    if named is None:
        return None
    if isinstance(named.teacher_scores, list) and len(named.teacher_scores) != 2:
        return Problem(
            "data.columns.teacher_scores needs two names in a list, of positives' and negatives'",
            "set data.columns.teacher_scores=[POS_SCORES,NEG_SCORES], or the name of one column",
        )
    if named.text is not None or named.label is not None:
        kind = "text" if named.text is not None else "label"
        if kind == "label" and task not in ("classification", "clustering"):
            return Problem(
                f"data.columns.label={named.label} makes labelled texts, which teach no {task}",
                "set data.task=classification or data.task=clustering, or data.columns.label=null",
            )
        others = ["negatives", "score", "teacher_scores"]
        others += ["label", "group", "language", "prompt"] if kind == "text" else ["group"]
        idle = [name for name in others if getattr(named, name) is not None]
        if idle:
            return warning(
                f"data.columns.{idle[0]} has no effect beside data.columns.{kind}={named.text}"
                if kind == "text"
                else f"data.columns.{idle[0]} has no effect beside data.columns.label",
                f"set data.columns.{idle[0]}=null",
            )
        return None
    if named.positive is None:
        return Problem(
            "data.columns.positive=null leaves a query without an answer",
            "name the column of positives, or of labels (data.columns.label) or plain texts "
            "(data.columns.text)",
        )
    return None


@rule("data")
def plain_texts_are_read(config: Config) -> Problem | None:
    """Plain texts teach language, not which texts belong together."""
    named = columns(config)
    if named is None or named.text is None or config.stage.name in TEXT_STAGES:
        return None
    return Problem(
        f"data.columns.text={named.text} makes plain texts, of which stage={config.stage.name} "
        "can make no use",
        "use stage=mlm or stage=causal_lm, or set data.columns.text=null",
    )


@rule("data")
def columns_are_there(config: Config) -> Problem | None:
    """A column that is named must be in the file; where a hub is needed, the run itself looks."""
    from embedexp.data import describe, missing_column

    if columns(config) is None or data_are_planned(config):
        return None
    try:
        describe(config.data)
    except UserError:
        return None  # which another rule tells
    error = missing_column(config.data)
    return Problem(error.what, error.hint or "mend data.columns") if error else None


@rule("data")
def hub_data_are_pinned(config: Config) -> Problem | None:
    """What the hub's newest version holds, no signature can tell."""
    data = config.data
    if data.name != "huggingface" or data.revision is not None:
        return None
    if Path(data.dataset).expanduser().exists():
        return None
    return warning(
        f"data.dataset={data.dataset} may change on the hub, and the signature would not",
        "set data.revision to a commit",
    )


@rule("data", "negatives")
def own_negatives_exist(config: Config) -> Problem | None:
    """negatives=own, and dynamic without a file, need data that brings some."""
    named, negatives = columns(config), config.negatives
    dynamic = isinstance(negatives, Dynamic) and negatives.path is None
    if not (negatives.name == "own" or dynamic) or config.data.name == "mixture":
        return None
    other = "name a mined file in negatives.path" if dynamic else "use negatives=mined_file"
    if named is None:
        return Problem(
            f"negatives={negatives.name}, but data={config.data.name} has no hard negatives of "
            "its own",
            f"use negatives=none, or {other.removeprefix('use ')}",
        )
    if named.negatives is None or named.label is not None:
        return Problem(
            f"negatives={negatives.name}, but data.columns.negatives names no field",
            "set data.columns.negatives=FIELD, or " + (other if dynamic else "use negatives=none"),
        )
    return None


@rule("data", "negatives")
def own_negatives_are_used(config: Config) -> Problem | None:
    """Negatives that the data brings and nobody reads are worth a word."""
    from .show import spell

    named = columns(config)
    if named is not None and named.negatives is not None and config.negatives.name == "none":
        return warning(
            f"data.columns.negatives={spell(named.negatives)} has no effect with negatives=none",
            "use negatives=own, or set data.columns.negatives=null",
        )
    return None


@rule("data")
def scores_have_a_column(config: Config) -> Problem | None:
    """Graded pairs need grades."""
    named, task = columns(config), getattr(config.data, "task", None)
    if named is None or named.text is not None or named.label is not None:
        return None
    if task == "sts" and named.score is None:
        return Problem(
            "data.task=sts, but data.columns.score names no field", "set data.columns.score=FIELD"
        )
    if task != "sts" and named.score is not None:
        return warning(
            f"data.columns.score={named.score} has no effect with data.task={task}",
            "set data.task=sts, or data.columns.score=null",
        )
    return None


RULES: tuple[Rule, ...] = (
    data_files_exist,
    columns_make_examples,
    plain_texts_are_read,
    own_negatives_exist,
    own_negatives_are_used,
    scores_have_a_column,
    columns_are_there,
    hub_data_are_pinned,
)
