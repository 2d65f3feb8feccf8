"""merge=expert_average: the experts of each block become one, and the model dense."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.config.schema.routing import Dense

from . import combining
from .dense_names import dense_names
from .folder import describe, weights_path, writing
from .models import Model, outline
from .record import Input, Record

if TYPE_CHECKING:
    from embedexp.config.schema.merge import ExpertAverage

    from . import Score
    from .combining import Part


def merge(option: ExpertAverage, output: Path, score: Score | None = None) -> Record:
    """Write the dense model whose MLPs (and norms, where they are experts too) are the means.

    This is MoTE's expert averaging (EA, arXiv 2506.17781, table 7); experts count equally, however
    many tasks they have. Token-routed experts qualify if the weights of a token's experts sum to 1
    (`renormalize=topk`): then equal experts compute what their mean does. With other weights the
    dense block would have another scale. Routers are dropped.

    Raises:
        UserError: the model is dense, or its experts can't be replaced by their mean.
    """
    with tempfile.TemporaryDirectory() as scratch:
        model = Model(option.inputs[0], Path(scratch))
        require_replaceable(model)
        plan: dict[str, list[Part]] = {}
        for name, (dense, _) in dense_names(model.config).items():
            plan.setdefault(dense, []).append((model.weights, name))
        config = model.config.model_copy(update={"routing": Dense(name="dense")})
        with writing(output) as folder:
            combining.combine(plan, combining.uniform, weights_path(folder))
            describe(outline(config, model.folder), folder)
        head = "The language-model head was left out: it belongs to the routed model."
        notes = [head] if model.head is not None else []
        inputs = [Input.of(model)]
    return Record(option.model_dump(mode="json"), inputs, notes=notes)


def require_replaceable(model: Model) -> None:
    """Whether a mean of a model's experts can stand for them.

    Raises:
        UserError: it can't.
    """
    routing: Any = model.config.routing
    where = f"merge.inputs: {model.path}"
    if routing.name == "dense":
        raise UserError(
            "merge=expert_average: the model is dense, it has no experts",
            where=where,
            hint="name a model of routing=mote or routing=moe",
        )
    if routing.name == "mote":
        return
    if getattr(routing, "renormalize", None) != "topk":
        raise UserError(
            f"merge=expert_average: routing={routing.name} with renormalize={routing.renormalize} "
            "weighs experts by numbers that do not sum to 1, so that their mean has another scale",
            where=where,
            hint="average models of routing=mote, or of token routing with renormalize=topk",
        )
    if routing.biases != "per_expert":
        raise UserError(
            f"merge=expert_average: routing={routing.name} with biases={routing.biases} adds a "
            "bias outside of its experts, for which a dense block has no place",
            where=where,
            hint="average models with routing.biases=per_expert",
        )
