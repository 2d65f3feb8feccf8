"""What the stages that write or label data, or probe, are about to do, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .probe_data import in_use
from .schema.generate import FromData, GenerateStage, Generating
from .schema.probe import ProbeStage
from .schema.tokenizer import TokenizerStage

if TYPE_CHECKING:
    from .experiment import Config

Row = tuple[str, str, tuple[str, ...]]


def stage_words(config: Config) -> list[Row]:
    """Rows of heading, text and the dotted keys that it speaks of; none for other stages."""
    stage = config.stage
    if isinstance(stage, ProbeStage):
        return _probe(stage)
    if isinstance(stage, TokenizerStage):
        text = f"{stage.model}, {stage.vocabulary:,} tokens, around a text: {stage.around}"
        return [("tokenizer", text, ("stage.model", "stage.vocabulary", "stage.around"))]
    if isinstance(stage, Generating):
        return _generating(stage)
    return []


def _probe(stage: ProbeStage) -> list[Row]:
    tasks = in_use(stage)
    points = len(stage.batch_sizes) * len(stage.learning_rates)
    trainings = points * len(stage.seeds) * len(tasks)
    rates = ", ".join(f"{rate:g}" for rate in stage.learning_rates)
    grid = (
        f"batch {', '.join(map(str, stage.batch_sizes))} by learning rate {rates}, "
        f"{len(stage.seeds)} seeds: {trainings:,} trainings of {stage.epochs} epochs"
    )
    if stage.max_steps is not None:
        grid += f", at most {stage.max_steps:,} steps each"
    keys = ("batch_sizes", "learning_rates", "seeds", "epochs")
    return [
        ("tasks", ", ".join(tasks), ("stage.tasks",)),
        ("grid", grid, tuple(f"stage.{key}" for key in keys)),
    ]


def _generating(stage: Generating) -> list[Row]:
    total = sum(option.share for option in stage.generators.values())
    who = ", ".join(
        f"{name} ({option.model}, {option.share / total:.0%})"
        for name, option in stage.generators.items()
    )
    rows: list[Row] = [("generators", who, ("stage.generators",))]
    if isinstance(stage, GenerateStage):
        text = f"{stage.examples:,} of kind {stage.kind}, of {stage.tasks:,} proposed tasks"
        rows.append(("examples", text, ("stage.examples", "stage.kind", "stage.tasks")))
    if isinstance(stage, GenerateStage | FromData):
        shares = sum(stage.languages.values())
        codes = ", ".join(f"{code} {s / shares:.1%}" for code, s in stage.languages.items())
        rows.append(("languages", codes, ("stage.languages",)))
    limits = [f"{v:,} {k}" for k, v in stage.budget.model_dump().items() if v is not None]
    rows.append(("budget", " and ".join(limits) or "none", ("stage.budget",)))
    return rows
