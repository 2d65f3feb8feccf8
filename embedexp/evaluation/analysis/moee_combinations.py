"""analysis=moee_combinations: HS, RW, concat and sum on the tasks of an evaluation (MoEE)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from embedexp import evaluation
from embedexp.evaluation.ranking import mean_over_types, means_by_type

from .moee_sum import LABELS, RULES, SIMILARITIES, averaged_predictions
from .report import Report
from .router_vectors import width, with_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from embedexp.config.schema.evaluation import Evaluation
    from embedexp.embedding import Embedder
    from embedexp.evaluation import Score

    from .context import Context

HIDDEN, ROUTING, CONCAT, SUM = "HS", "RW", "MoEE (concat)", "MoEE (sum)"


def analyse(context: Context) -> Report:
    """The report of `analysis=moee_combinations`, and its picture beside it."""
    option = context.option
    router = {"router": option.router, "router_pooling": option.router_pooling}
    both = {**router, "standardize": option.standardize}
    alone = option.standardize if option.standardize_hidden_state else "none"
    model = context.embedder
    hidden_state = with_source(model, "hidden_state", standardize=alone, normalize=True)
    # Watched once: the others share what the first has hooked into the model.
    routing = with_source(hidden_state, "routing_weights", **both, normalize=True)
    concat = with_source(hidden_state, "concat", **both, normalize=True)
    found = {
        HIDDEN: _scores(context, hidden_state, HIDDEN, context.evaluation),
        ROUTING: _scores(context, routing, ROUTING, context.evaluation),
        CONCAT: _scores(context, concat, CONCAT, context.evaluation),
    }
    types = {score.task: score.type for score in found[HIDDEN]}
    summed = with_source(hidden_state, "sum", **both, alpha=option.alpha)
    parts = with_source(hidden_state, "concat", **both)
    sums: list[Score] = []
    if asked := _only(context.evaluation, types, SIMILARITIES):
        sums += _scores(context, summed, f"{SUM} of similarities", asked)
    if asked := _only(context.evaluation, types, LABELS):
        with averaged_predictions(width(model, "hidden_state"), option.alpha):
            sums += _scores(context, parts, f"{SUM} of predictions", asked)
    found[SUM] = sums
    return _report(context, found, types)


def _scores(context: Context, embedder: Embedder, name: str, asked: Evaluation) -> list[Score]:
    context.say(name)

    def on_task(score: Score) -> None:
        context.told(f"{name}: {score.task}")

    folder = name.lower().replace(" ", "_").replace("(", "").replace(")", "")
    return evaluation.evaluate(
        embedder,
        asked,
        on_task=on_task,
        output=context.folder / "moee_combinations" / folder,
        saved_prompts=context.saved_prompts,
    )


def _only(asked: Evaluation, types: Mapping[str, str], wanted: Sequence[str]) -> Evaluation | None:
    """The evaluation of those of its tasks that have a wanted type; None without any."""
    tasks = [task for task, kind in types.items() if kind in wanted]
    if not tasks or asked.name == "none":
        return None
    if asked.name == "builtin":
        return asked.model_copy(update={"tasks": tasks})
    return asked.model_copy(update={"types": sorted({types[task] for task in tasks})})


def _report(
    context: Context, found: Mapping[str, Sequence[Score]], types: Mapping[str, str]
) -> Report:
    values: dict[str, dict[str, float | None]] = {
        name: {score.task: score.value for score in scores} for name, scores in found.items()
    }
    kinds = list(dict.fromkeys(types.values()))
    ruled = {task: kind for task, kind in types.items() if kind in RULES}
    by_type = {name: means_by_type(own, types) for name, own in values.items()}
    means = {name: mean_over_types(own, ruled) for name, own in values.items()}
    plot(by_type, means, kinds, context.folder / "moee_combinations.png")
    notes = []
    for rule in dict.fromkeys(RULES[kind] for kind in kinds if kind in RULES):
        named = [kind for kind in kinds if RULES.get(kind) == rule]
        notes.append(f"sum of {', '.join(named)} - {rule}")
    if without := [kind for kind in kinds if kind not in RULES]:
        notes.append(f"sum has no rule for {', '.join(without)}, which the mean leaves out")
    return Report(
        name="moee_combinations",
        title="Hidden state, routing weights, and both",
        unit=f"task ({len(types)}); means over the tasks of a type, then over types",
        settings={**context.settings, "evaluation": context.evaluation.model_dump(mode="json")},
        columns=["type of task", *values],
        rows=[
            *([kind, *(by_type[name][kind] for name in values)] for kind in kinds),
            ["mean (type)", *means.values()],
        ],
        data={
            "scores": values,
            "types": dict(types),
            "sum": {kind: RULES.get(kind) for kind in kinds},
        },
        notes=notes,
    )


def plot(
    by_type: Mapping[str, Mapping[str, float | None]],
    means: Mapping[str, float | None],
    kinds: Sequence[str],
    path: Path,
) -> None:
    """Write a PNG: a group of bars for each type of task; no bar where there is no score."""
    from embedexp.drawing import drawn
    from embedexp.evaluation.plots import CURVES

    labels = [*kinds, "mean"]
    title, size = "Hidden state, routing weights, and both", (1.5 * len(labels) + 2.5, 4.4)
    with drawn(path, size, title) as figure:
        axes = figure.subplots()
        for position, (name, own) in enumerate(by_type.items()):
            places = [i + (position - (len(by_type) - 1) / 2) * 0.19 for i in range(len(labels))]
            values = [*(own[kind] for kind in kinds), means[name]]
            heights = [float("nan") if value is None else value for value in values]
            axes.bar(places, heights, width=0.17, color=CURVES[position], label=name)
        names = [re.sub(r"(?<=[a-z])(?=[A-Z])", "\n", label) for label in labels]
        axes.set_xticks(range(len(labels)), names, fontsize=9)
        axes.set(ylabel="score (1 is best)")
        axes.grid(axis="y", alpha=0.25)
        figure.legend(loc="outside lower center", ncols=len(by_type), frameon=False)
