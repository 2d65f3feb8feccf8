"""Checks of the stages that mine and filter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .model_checks import data_tasks, looks_like_path
from .predecessors import is_planned
from .problems import Problem, Rule, rule, shard_beyond_the_last, warning

if TYPE_CHECKING:
    from .experiment import Config

LEXICAL = "bm25"


@rule("stage")
def teachers_exist(config: Config) -> Problem | None:
    """A teacher named by its path must be there; a hub name is tried when the run starts."""
    if config.stage.name == "mine":
        key, names = "stage.teachers", list(config.stage.teachers)
    elif config.stage.name == "filter":
        key, names = "stage.teacher", [config.stage.teacher]
        if config.stage.teacher == LEXICAL:
            return Problem(
                "stage=filter compares vectors, which bm25 has none of",
                "name an embedder in stage.teacher",
            )
    else:
        return None
    for name in names:
        is_path = looks_like_path(name) or Path(name).is_relative_to(config.paths.runs)
        if is_path and not Path(name).expanduser().exists() and not is_planned(name):
            return Problem(f"{key} names {name}, which does not exist", f"mend the path in {key}")
        if names.count(name) > 1:
            return Problem(f"{key} names {name} twice", "name each teacher once")
    return None


@rule("stage")
def mining_can_be_done(config: Config) -> Problem | None:
    """Ranks that hold the negatives asked for, shards that exist, scores on one scale."""
    stage = config.stage
    if stage.name != "mine":
        return None
    rules = stage.rules
    if rules.rank_max < rules.rank_min + stage.count:
        return Problem(
            f"ranks {rules.rank_min} to {rules.rank_max} hold fewer than stage.count={stage.count}",
            f"set stage.rules.rank_max={rules.rank_min + stage.count} or more",
        )
    if problem := shard_beyond_the_last("stage.shard", stage.shard, stage.shards):
        return problem
    if stage.combination == "mean" and LEXICAL in stage.teachers and len(stage.teachers) > 1:
        return Problem(
            "the mean of cosines and BM25's scores has no meaning: they are on different scales",
            "use stage.combination=union or agreement",
        )
    if stage.cross_encoder is not None and not Path(stage.cross_encoder).expanduser().is_dir():
        return Problem(
            f"stage.cross_encoder={stage.cross_encoder} is not a folder",
            "mend the path in stage.cross_encoder",
        )
    return None


@rule("stage")
def mining_options_have_an_effect(config: Config) -> Problem | None:
    """What the other options leave without effect."""
    stage = config.stage
    if stage.name != "mine":
        return None
    rules = stage.rules
    margins = (rules.percent_of_positive, rules.relative_margin, rules.absolute_margin)
    if rules.reference != "min" and margins == (None, None, None):
        return Problem(
            f"stage.rules.reference={rules.reference} has no effect without a margin",
            "set stage.rules.percent_of_positive=0.95, or take it out",
        )
    if stage.combination != "union" and len(stage.teachers) == 1:
        return Problem(
            f"stage.combination={stage.combination} has no effect with one teacher",
            "name several in stage.teachers, or take it out",
        )
    if stage.teachers == [LEXICAL] and stage.search.method != "exact":
        return Problem(
            f"stage.search.method={stage.search.method} has no effect on bm25", "take it out"
        )
    return None


@rule("data", "negatives")
def labels_exist(config: Config) -> Problem | None:
    """negatives=label needs classes."""
    if config.negatives.name != "label":
        return None
    tasks = data_tasks(config)
    if "classification" not in tasks:
        return Problem(
            f"negatives=label, but data={config.data.name} teaches {', '.join(tasks)}: no classes",
            "use negatives=random, or classification data",
        )
    others = [task for task in tasks if task in ("retrieval", "clustering")]
    if others:
        return warning(
            f"negatives=label gives {' and '.join(others)} no hard negatives",
            "use negatives=random for all",
        )
    return None


@rule("stage")
def filtering_drops_something(config: Config) -> Problem | None:
    """A filter without a rule keeps every pair."""
    stage = config.stage
    if stage.name != "filter" or stage.top_k is not None or stage.min_score is not None:
        return None
    return Problem(
        "stage=filter with neither stage.top_k nor stage.min_score keeps every pair",
        "set stage.top_k=2, or stage.min_score=0.4",
    )


RULES: tuple[Rule, ...] = (
    filtering_drops_something,
    teachers_exist,
    mining_can_be_done,
    mining_options_have_an_effect,
    labels_exist,
)
