"""Rules of stage=analyse: what is analysed must be there, and nothing may be without effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .model_checks import looks_like_path
from .predecessors import is_planned
from .problems import Problem, Rule, rule
from .schema.analysis import Matryoshka, PromptRobustness, TaskSimilarity, TextAnalysis

if TYPE_CHECKING:
    from .experiment import Config


@rule()
def analysis_belongs_to_its_stage(config: Config) -> Problem | None:
    """An analysis and stage=analyse come together."""
    chosen, analysing = config.analysis.name != "none", config.stage.name == "analyse"
    if analysing and not chosen:
        return Problem(
            "stage=analyse, but analysis=none says nothing to do",
            "add analysis=task_similarity, or another analysis",
        )
    if chosen and not analysing:
        return Problem(
            f"analysis={config.analysis.name} has no effect in stage={config.stage.name}",
            "add stage=analyse stage.model=RUN, or take the analysis out",
        )
    return None


@rule("analysis", "evaluation")
def scores_need_tasks(config: Config) -> Problem | None:
    """An analysis of scores needs an evaluation."""
    if config.analysis.evaluates and config.evaluation.name == "none":
        return Problem(
            f"analysis={config.analysis.name} measures scores, but evaluation=none has no tasks",
            "use evaluation=builtin or evaluation=mteb",
        )
    return None


@rule("analysis", "evaluation")
def the_width_is_the_analysis_own(config: Config) -> Problem | None:
    """Analyses of scores say themselves which dimensions of a vector are measured."""
    analysis, evaluation = config.analysis, config.evaluation
    if not analysis.evaluates or evaluation.name == "none" or evaluation.width is None:
        return None
    why = (
        "measures analysis.widths and the whole vector"
        if isinstance(analysis, Matryoshka)
        else "puts whole hidden states and routing weights together"
    )
    return Problem(
        f"evaluation.width={evaluation.width} has no place in analysis={analysis.name}, which "
        f"{why}",
        "set evaluation.width=null",
    )


@rule("analysis")
def analysed_models_exist(config: Config) -> Problem | None:
    """Models named by their paths must be there; hub names are tried when the run starts."""
    for key, model in models(config):
        is_path = looks_like_path(model) or Path(model).is_relative_to(config.paths.runs)
        if is_path and not Path(model).expanduser().exists() and not is_planned(model):
            return Problem(f"{key}={model} does not exist", f"mend the path in {key}")
    return None


@rule("analysis")
def texts_exist(config: Config) -> Problem | None:
    """A file with texts must be there."""
    path = texts(config)
    if path is not None and not Path(path).expanduser().is_file():
        return Problem(f"analysis.texts={path} is not a file", "mend the path in analysis.texts")
    return None


@rule("analysis")
def instructions_differ(config: Config) -> Problem | None:
    """An instruction is not compared with itself."""
    if isinstance(config.analysis, TaskSimilarity):
        tasks = config.analysis.tasks
        if len(set(tasks)) < len(tasks):
            return Problem("analysis.tasks names an instruction twice", "name each one once")
    return None


@rule("analysis")
def prompts_hold_the_text(config: Config) -> Problem | None:
    """There are at least two prompts, and the text stands in each."""
    if not isinstance(config.analysis, PromptRobustness):
        return None
    for name, prompt in config.analysis.prompts.items():
        if prompt.count("{text}") != 1:
            return Problem(
                f"analysis.prompts.{name} does not say where the text stands",
                "put {text} into it, once",
            )
    if len(config.analysis.prompts) < 2:
        return Problem(
            "analysis.prompts has fewer than two prompts to compare",
            "add one: '+analysis.prompts.NAME=\"... {text} ...\"'",
        )
    return None


def models(config: Config) -> list[tuple[str, str]]:
    """Models that stage=analyse reads, by dotted key."""
    if config.stage.name != "analyse":
        return []
    found = [("stage.model", config.stage.model)]
    if isinstance(config.analysis, TaskSimilarity) and config.analysis.baseline is not None:
        found.append(("analysis.baseline", config.analysis.baseline))
    return found


def texts(config: Config) -> str | None:
    """The file with texts that the analysis reads, if it reads one."""
    return config.analysis.texts if isinstance(config.analysis, TextAnalysis) else None


def idle(config: Config, group: str) -> Problem | None:
    """Whether overrides of a group have no effect in the chosen analysis."""
    analysis = config.analysis
    if config.stage.name != "analyse" or group != "evaluation" or analysis.evaluates:
        return None
    return Problem(
        f"evaluation has no effect in analysis={analysis.name}, which measures no scores",
        "take it out, or use analysis=matryoshka or analysis=moee_combinations",
    )


RULES: tuple[Rule, ...] = (
    analysis_belongs_to_its_stage,
    scores_need_tasks,
    the_width_is_the_analysis_own,
    analysed_models_exist,
    texts_exist,
    instructions_differ,
    prompts_hold_the_text,
)
