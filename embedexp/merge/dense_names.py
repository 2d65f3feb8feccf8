"""What the tensors of a routed model are called in the dense one that it was made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.embedding import building
from embedexp.embedding.projection import PREFIX

from .experts import EXPERT

if TYPE_CHECKING:
    from embedexp.embedding.model_config import ModelConfig


def dense_names(config: ModelConfig) -> dict[str, tuple[str, int | None]]:
    """For each tensor of a routed model, its name in the dense model and the expert's number.

    The number is None for what is shared. Routers have no dense counterpart and are left out. Found
    out by routing a model without weights: the first expert is the dense module itself.
    """
    from embedexp import routing
    from embedexp.config.schema.routing import Dense

    model, _, projection = building.load(
        config.model_copy(update={"routing": Dense(name="dense")}), "meta"
    )
    before = {id(value): name for name, value in model.state_dict(keep_vars=True).items()}
    routing.apply(config.routing, model)
    after = {name: id(value) for name, value in model.state_dict(keep_vars=True).items()}
    found: dict[str, tuple[str, int | None]] = {}
    for name in after:
        match = EXPERT.match(name)
        if match is None:
            if after[name] in before:
                found[name] = before[after[name]], None
            continue
        first = f"{match['group']}.experts.0.{match['rest']}"
        if after[first] in before:
            found[name] = before[after[first]], int(match["number"])
    if projection is not None:
        names = (f"{PREFIX}.{name}" for name in projection.state_dict())
        found |= {name: (name, None) for name in names}
    return found
