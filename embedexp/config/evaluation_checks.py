"""Checks of what is measured: names that mteb knows, parts that exist, prompts that are used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from . import catalogue
from .errors import nearest
from .model_checks import dimensions, positions
from .problems import Problem, Rule, rule, shard_beyond_the_last, warning
from .schema.embedding import PLACEHOLDER
from .schema.evaluation import MtebEvaluation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .experiment import Config

INSTRUCTION = "{instruction}"
LANGUAGE = r"[a-z]{3}(-[A-Z][a-z]{3})?"


@rule("evaluation")
def benchmarks_and_tasks_are_known(config: Config) -> Problem | None:
    """Names are those of mteb's benchmarks, tasks and types of tasks."""
    option = config.evaluation
    if not isinstance(option, MtebEvaluation):
        return None
    for name in option.types:
        if name not in catalogue.types():
            return _unknown("evaluation.types", name, catalogue.types())
    for code in option.languages:
        if not re.fullmatch(LANGUAGE, code):
            return Problem(
                f"evaluation.languages names {code}, which is no code of ISO 639-3",
                "write three letters (eng, deu, zho), or with the script (eng-Latn)",
            )
    if not catalogue.is_complete():
        return None  # another version of mteb may know more
    for name in option.benchmarks:
        if catalogue.tasks_of(name) is None:
            return _unknown("evaluation.benchmarks", name, catalogue.benchmark_names())
    for key, names in (("tasks", option.tasks), ("exclude", option.exclude)):
        for name in (catalogue.parse(each).name for each in names):
            if name not in catalogue.task_types():
                return _unknown(f"evaluation.{key}", name, catalogue.task_types())
    return None


@rule("evaluation")
def something_is_measured(config: Config) -> Problem | None:
    """A public evaluation names benchmarks or tasks, and its filters leave some."""
    option = config.evaluation
    if not isinstance(option, MtebEvaluation):
        return None
    if not option.benchmarks and not option.tasks:
        return Problem(
            "evaluation=mteb names nothing to measure",
            "set \"evaluation.benchmarks=['MTEB(eng, v2)']\" or evaluation.tasks=[SciFact]",
        )
    if not catalogue.selected(option):
        return Problem(
            "evaluation.types and evaluation.exclude leave no task to measure",
            "take some out of evaluation.exclude, or name other evaluation.types",
        )
    named = set(catalogue.selected(option.model_copy(update={"exclude": []})))
    idle = [name for name in option.exclude if name not in named]
    if idle:
        return warning(
            f"evaluation.exclude names {idle[0]}, which is not measured anyway", "take it out"
        )
    return None


@rule("evaluation")
def shards_are_stages_of_their_own(config: Config) -> Problem | None:
    """Parts are numbered from 0, and are measured by stage=evaluate."""
    option = config.evaluation
    if not isinstance(option, MtebEvaluation):
        return None
    if problem := shard_beyond_the_last("evaluation.shard", option.shard, option.shards):
        return problem
    if option.shards > 1 and config.stage.name != "evaluate":
        return Problem(
            f"evaluation.shards={option.shards} has no effect in stage={config.stage.name}",
            "measure the trained model by stage=evaluate stage.model=RUN",
        )
    return None


@rule("evaluation")
def keys_of_prompts_are_mtebs(config: Config) -> Problem | None:
    """A prompt under a name that mteb doesn't have would never be used."""
    option = config.evaluation
    if option.name == "none":
        return None
    tables = {"evaluation.prompts": option.prompts}
    own: list[str] = list(getattr(option, "tasks", ())) if option.name == "builtin" else []
    instructions = getattr(option, "instructions", None)
    if instructions is not None:
        tables["evaluation.instructions.overrides"] = instructions.overrides
        if INSTRUCTION not in instructions.template:
            return Problem(
                f"evaluation.instructions.template has no place for {INSTRUCTION}",
                f'write it as "Instruct: {INSTRUCTION}\\nQuery: "',
            )
    for where, table in tables.items():
        for key, prompt in table.items():
            name, dash, side = key.rpartition("-")
            name = name if dash and side in catalogue.SIDES else key
            known = [*catalogue.SIDES, *catalogue.types(), *own]
            if option.name == "mteb":
                known += catalogue.task_types()
            if name not in known and (option.name == "builtin" or catalogue.is_complete()):
                return _unknown(where, name, known)
            if prompt.count(PLACEHOLDER) > 1:
                return Problem(f"{where}.{key} has {PLACEHOLDER} twice", "let the text stand once")
    return None


@rule("backbone", "embedding", "evaluation")
def measured_width_exists(config: Config) -> Problem | None:
    """Vectors can be cut to a width that they have."""
    option, embedding = config.evaluation, config.embedding
    if option.name == "none" or option.width is None or embedding.name == "moee":
        return None
    width = dimensions(config)
    if width is not None and option.width > width:
        return Problem(
            f"evaluation.width={option.width} is more than the {width} dimensions of the model",
            f"set evaluation.width={width} or less; null keeps all",
        )
    return None


@rule("backbone", "embedding", "evaluation")
def measured_lengths_are_within_positions(config: Config) -> Problem | None:
    """Texts can be measured as far as the model has positions."""
    option, longest = config.evaluation, positions(config.backbone)
    if option.name == "none" or longest is None:
        return None
    for key in ("query_tokens", "document_tokens"):
        tokens = getattr(option, key)
        if tokens is not None and tokens > longest:
            return Problem(
                f"evaluation.{key}={tokens}, but {config.backbone.name} has {longest} positions",
                f"set evaluation.{key}={longest} or less; null keeps the embedding's",
            )
    return None


def _unknown(where: str, word: str, words: Iterable[str]) -> Problem:
    close = nearest(word, words)
    return Problem(
        f"{where} names {word}, which mteb does not have",
        f"did you mean {close}?" if close else "see its documentation for the names",
    )


RULES: tuple[Rule, ...] = (
    benchmarks_and_tasks_are_known,
    something_is_measured,
    shards_are_stages_of_their_own,
    keys_of_prompts_are_mtebs,
    measured_width_exists,
    measured_lengths_are_within_positions,
)
