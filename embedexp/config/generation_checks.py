"""Checks of the stages that ask generators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeGuard

from .errors import nearest
from .flat import flatten
from .problems import Problem, Rule, rule
from .prompt_files import of_stage, read
from .schema.generate import Generating

if TYPE_CHECKING:
    from .experiment import Config

SECRET = re.compile(
    r"api[-_]?key|authorization|bearer|passw|secret|^key$|^((access|auth|id|refresh|api)[-_]?)?token$",
    re.I,
)


def _generating(stage: object) -> TypeGuard[Generating]:
    return isinstance(stage, Generating)


@rule("stage")
def generators_can_be_asked(config: Config) -> Problem | None:
    """Addresses are of the web, and hold no key; nor do further fields of requests."""
    stage = config.stage
    if not _generating(stage):
        return None
    for name, option in stage.generators.items():
        where = f"stage.generators.{name}"
        if not option.url.startswith(("http://", "https://")):
            return Problem(
                f"{where}.url={option.url} is no address", "write it as http://localhost:8000/v1"
            )
        fields = [key for key in flatten(option.extra) if any(map(SECRET.search, key.split(".")))]
        if "@" in option.url or "?" in option.url or fields:
            key = "url" if not fields else f"extra.{fields[0]}"
            return Problem(
                f"{where}.{key} may hold a key, and this config is written to files",
                f"put the key into the environment and name its variable in {where}.key_variable",
            )
    return None


@rule("stage")
def generated_kinds_fit(config: Config) -> Problem | None:
    """Who proposes is there; pairs with a similarity have no negatives."""
    stage = config.stage
    if stage.name == "generate":
        if stage.proposer is not None and stage.proposer not in stage.generators:
            near = nearest(stage.proposer, list(stage.generators))
            return Problem(
                f"stage.proposer={stage.proposer} is none of the generators",
                f"did you mean {near}?" if near else "name one of stage.generators, or null",
            )
        if stage.kind == "sts" and stage.negatives:
            return Problem(
                f"stage.negatives={stage.negatives} has no effect with stage.kind=sts",
                "set stage.negatives=0",
            )
        if stage.proposer is None and len(stage.generators) > stage.tasks:
            return Problem(
                f"stage.tasks={stage.tasks}, and each of {len(stage.generators)} generators "
                "proposes its own",
                f"set stage.tasks={len(stage.generators)} or more, or name one in stage.proposer",
            )
    if _generating(stage):
        if stage.shortest > stage.longest:
            return Problem(
                f"stage.shortest={stage.shortest} is more than stage.longest={stage.longest}",
                "set stage.shortest lower",
            )
        for key, name in of_stage(stage).items():
            read(name, key)
    return None


@rule("stage", "data")
def generation_reads_pairs(config: Config) -> Problem | None:
    """Queries and documents are what there is to translate, or to write a query for."""
    from .model_checks import data_tasks

    if config.stage.name not in ("generate_queries", "translate"):
        return None
    tasks = data_tasks(config)
    if "retrieval" in tasks:
        return None
    return Problem(
        f"stage={config.stage.name} reads retrieval pairs, and data={config.data.name} teaches "
        f"{', '.join(tasks)}",
        "use data with task retrieval",
    )


RULES: tuple[Rule, ...] = (generators_can_be_asked, generated_kinds_fit, generation_reads_pairs)
