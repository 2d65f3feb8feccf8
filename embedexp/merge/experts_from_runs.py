"""merge=experts_from_runs: dense models that were trained apart become task experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.schema.routing import MoTE

from . import combining
from .dense_names import dense_names
from .folder import describe, weights_path, writing
from .models import outline
from .record import Input, Record
from .together import opened

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.merge import ExpertsFromRuns

    from . import Score
    from .combining import Part


def merge(option: ExpertsFromRuns, output: Path, score: Score | None = None) -> Record:
    """Write a model of routing=mote whose experts are the blocks' MLPs and norms of the runs.

    Branch, train, merge (arXiv 2208.03306; 2403.07816 for the averaging of what is shared):
    attention, embeddings and blocks without experts are the equal average of the runs, each
    counted once. A task without a model has no expert.

    Raises:
        UserError: a model is not dense, or they differ in more than their weights.
    """
    numbers = {path: number for number, path in enumerate(option.inputs)}
    experts = {task: numbers[path] for task, path in option.experts.items()}
    notes = ["Weights are shares of what all experts have in common."]
    with opened(option.inputs) as models:
        first = models[0]
        if first.config.routing.name != "dense":
            raise UserError(
                f"merge=experts_from_runs: {first.path} has routing={first.config.routing.name}",
                where="merge.experts",
                hint="name dense models; experts are made of their MLPs",
            )
        mote = MoTE(name="mote", placement=option.placement, experts=experts)
        config = first.config.model_copy(update={"routing": mote})
        plan: dict[str, list[Part]] = {}
        for name, (dense, expert) in dense_names(config).items():
            chosen = models if expert is None else [models[expert]]
            plan[name] = [(model.weights, dense) for model in chosen]
        with writing(output) as folder:
            combining.combine(plan, combining.uniform, weights_path(folder))
            describe(outline(config, first.folder), folder)
        inputs = [
            Input.of(
                model,
                role=f"expert {i} ({', '.join(t for t, e in experts.items() if e == i)})",
                weight=1 / len(models),
            )
            for i, model in enumerate(models)
        ]
        if any(model.head is not None for model in models):
            notes.append("The language-model head was left out: it belongs to the dense models.")
    return Record(option.model_dump(mode="json"), inputs, notes=notes)
