"""Rules between groups: contradictions, and options that would have no effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import (
    analysis_checks,
    compute_checks,
    data_checks,
    embedding_checks,
    evaluation_checks,
    generation_checks,
    language_checks,
    loss_checks,
    merge_checks,
    mining_checks,
    mixture_checks,
    model_checks,
    predecessors,
    probe_checks,
    tokenizer_checks,
    trained,
    training_checks,
)
from .errors import UserError, shorten
from .model_checks import looks_like_path
from .predecessors import is_planned
from .problems import Problem, Rule, rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .experiment import Config


@rule("evaluation")
def evaluated_model_exists(config: Config) -> Problem | None:
    """A model named by its path must be there; a hub name is tried when the run starts."""
    if config.stage.name != "evaluate":
        return None
    if config.evaluation.name == "none":
        return Problem(
            "stage=evaluate, but evaluation=none leaves nothing to do", "use evaluation=builtin"
        )
    model = config.stage.model
    is_path = looks_like_path(model) or Path(model).is_relative_to(config.paths.runs)
    if is_path and not Path(model).expanduser().exists() and not is_planned(model):
        return Problem(f"stage.model={model} does not exist", "mend the path in stage.model")
    return None


@rule()
def provenance_names_real_keys(config: Config) -> Problem | None:
    """A mark on a key that does not exist marks nothing."""
    from .flat import flatten

    if not config.provenance:
        return None
    keys = flatten(config.to_dict())
    for dotted in config.provenance:
        if dotted not in keys and not any(key.startswith(dotted + ".") for key in keys):
            from .errors import closest

            near = " or ".join(closest(dotted, keys))
            return Problem(
                f"provenance marks {dotted}, which is no key of this experiment",
                f"did you mean {near}?" if near else "take it out",
            )
    return None


RULES: tuple[Rule, ...] = (
    *merge_checks.RULES,
    evaluated_model_exists,
    provenance_names_real_keys,
    *model_checks.RULES,
    *trained.RULES,
    *embedding_checks.RULES,
    *evaluation_checks.RULES,
    *language_checks.RULES,
    *data_checks.RULES,
    *mixture_checks.RULES,
    *loss_checks.RULES,
    *mining_checks.RULES,
    *probe_checks.RULES,
    *generation_checks.RULES,
    *tokenizer_checks.RULES,
    *training_checks.RULES,
    *compute_checks.RULES,
    *analysis_checks.RULES,
    *predecessors.RULES,
)


def check(config: Config) -> list[Problem]:
    """Every problem of the experiment, errors first; examples are counted only if all is well."""
    found = [problem for each in RULES if (problem := each(config)) is not None]
    if not any(problem.severity == "error" for problem in found):
        counted = (each(config) for each in training_checks.COUNTING_RULES)
        found += [problem for problem in counted if problem is not None]
    return sorted(found, key=lambda problem: problem.severity != "error")


SERVANTS: tuple[tuple[str, str, str], ...] = (
    ("loss.min_temperature", "loss.learnable_temperature", "true"),
    ("loss.infonce.temperature", "loss.infonce.weight", "1.0"),
    ("loss.infonce.denominator", "loss.infonce.weight", "1.0"),
)
"""Keys that count only where another one is neither false nor 0, and what to set that to."""


def _idle_servant(config: Config, override: str, target: str) -> Problem | None:
    for key, master, mend in SERVANTS:
        if target != key:
            continue
        found: Any = config
        for part in master.split("."):
            found = getattr(found, part, None)
        if found is None or found:
            return None
        from .show import spell

        return Problem(
            f"{shorten(override, 60)} has no effect with {master}={spell(found)}",
            f"take it out, or set {master}={mend}",
        )
    return None


def without_effect(config: Config, overrides: Sequence[str]) -> Problem | None:
    """An override of a group that the stage does not use, or of a key that another one disables."""
    from .schema import GROUPS
    from .tree import classes

    for override in overrides:
        target = override.lstrip("+~").partition("=")[0]
        if (idle := _idle_servant(config, override, target)) is not None:
            return idle
        group = target.partition("@")[0].partition(".")[0]
        if (idle := analysis_checks.idle(config, group)) is not None:
            return idle
        if group not in GROUPS or group in config.stage.uses:
            continue
        stages = [f"stage={name}" for name, cls in classes("stage").items() if group in cls.uses]
        return Problem(
            f"{shorten(override, 60)} has no effect in stage={config.stage.name}",
            f"take it out, or use {' or '.join(stages)}",
        )
    return None


def require(config: Config, overrides: Sequence[str] = ()) -> None:
    """Raise `UserError` for the first error of the experiment; warnings pass."""
    errors = [problem for problem in check(config) if problem.severity == "error"]
    idle = without_effect(config, overrides)
    # A contradiction explains more than "no effect" does, so that it comes first.
    problems = [*errors, *([idle] if idle else [])]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise UserError(problems[0].message + more, hint=problems[0].fix)
