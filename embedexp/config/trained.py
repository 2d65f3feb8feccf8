"""What the folder of a trained model says of itself, and whether an experiment may go on from it.

Read without torch, so that a wrong pair is refused before anything is loaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from .frozen import completed
from .problems import Problem, Rule, rule, warning
from .schema.routing import Routing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .experiment import Config

OURS = "embedexp.json"
"""Where a model folder says which options made it."""

TRAINING_ONLY = frozenset(
    (
        "name",
        "placement",
        "router_init",
        "router_std",
        "balance_coefficient",
        "balance_normalization",
        "z_loss_coefficient",
        "bias_update_rate",
    )
)
"""Keys of a routing that change no trained model's vectors, or are compared on their own."""

SAME_EXPERTS: Mapping[str, str] = {"token_level": "moe"}
"""Options whose experts are another's, by name."""


def folder_of(path: str | Path) -> Path:
    """The folder of a model: the one given, or `model` in a run directory."""
    folder = Path(path).expanduser()
    inner = folder / "model"
    return inner if (inner / OURS).is_file() else folder


def options_of(folder: Path) -> dict[str, Any] | None:
    """The options in a folder of ours, by group; None for a model made elsewhere."""
    try:
        content = json.loads((folder / OURS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    model = content.get("model") if isinstance(content, dict) else None
    return completed(model) if isinstance(model, dict) else None


def routing_of(folder: Path) -> Routing | None:
    """The routing of a model of ours; None for one made elsewhere, or that can't be read."""
    options = options_of(folder)
    try:
        found: Routing = _ROUTING.validate_python((options or {}).get("routing"))
    except ValidationError:
        return None
    return found


_ROUTING: TypeAdapter[Any] = TypeAdapter(Routing)


def mismatch(has: Routing, wanted: Routing, layers: int) -> tuple[str, str] | None:
    """Why experts of `has` cannot go on as `wanted` in a model of so many layers, and the mend.

    None where each token meets the same parameters with the same weights under both. Balance
    losses, biases' rates and the routers' initialisation may differ.
    """
    if has.name == "dense":
        return None  # dense weights become experts, or stay as they are
    of = f"backbone.source has the experts of routing={has.name}"
    if wanted.name == "dense":
        return f"{of}, which routing=dense would drop", f"set routing={has.name}"
    names = [SAME_EXPERTS.get(option.name, option.name) for option in (has, wanted)]
    if names[0] != names[1]:
        return f"{of}, not of routing={wanted.name}", f"set routing={has.name}"
    placed = [layers_of(option, layers) for option in (has, wanted)]
    if placed[0] != placed[1]:
        return (
            f"{of} in layers {_spell(placed[0])}, not in {_spell(placed[1])}",
            f"set routing.placement={_spell(has.placement)}",
        )
    theirs, ours = has.model_dump(), wanted.model_dump()
    for key in theirs:
        if key == "experts":
            found = _other_experts(theirs[key], ours[key])
            if found is not None:
                return f"{of}, whose expert of {found[0]} is {found[1]}", found[2]
        elif key not in TRAINING_ONLY and theirs[key] != ours[key]:
            return (
                f"{of} with routing.{key}={theirs[key]}, this experiment has {ours[key]}",
                f"set routing.{key}={theirs[key]}",
            )
    return None


def _other_experts(
    has: Mapping[str, int], wanted: Mapping[str, int]
) -> tuple[str, int, str] | None:
    """The first task whose expert differs, with the source's and the mend."""
    for task, expert in has.items():
        if wanted.get(task) != expert:
            return task, expert, f"set +routing.experts.{task}={expert}"
    most = max(has.values())
    for task, expert in wanted.items():
        if expert > most:
            return task, most, f"give {task} one of the {most + 1} experts, 0 to {most}"
    return None


def layers_of(routing: Routing, layers: int) -> list[int]:
    """The 0-based blocks, of so many, that have experts; in order."""
    if routing.name == "dense":
        return []
    placement = routing.placement
    named = {"every": range(layers), "every_other": range(1, layers, 2)}
    chosen = named[placement] if isinstance(placement, str) else sorted(set(placement))
    return [layer for layer in chosen if layer < layers]


def _spell(value: object) -> str:
    return str(value).replace(" ", "")


@rule("backbone", "routing")
def experts_go_on(config: Config) -> Problem | None:
    """Experts that a source has are met as they were trained, or not at all."""
    backbone = config.backbone
    if backbone.weights != "pretrained" or not backbone.source:
        return None
    has = routing_of(folder_of(backbone.source))
    layers = backbone.layers or backbone.architecture.get("num_hidden_layers")
    if has is None or not layers:
        return None
    found = mismatch(has, config.routing, layers)
    return None if found is None else Problem(*found)


@rule("backbone", "mask_schedule")
def mask_goes_on(config: Config) -> Problem | None:
    """A model that has learned to see both sides starts blind again under another schedule."""
    backbone, schedule = config.backbone, config.mask_schedule.name
    if backbone.weights != "pretrained" or not backbone.source or schedule == "bidirectional":
        return None
    options = options_of(folder_of(backbone.source)) or {}
    before = (options.get("mask_schedule") or {}).get("name")
    if before is None or before == "causal":
        return None
    return warning(
        f"backbone.source ended bidirectional (mask_schedule={before}), and "
        f"mask_schedule={schedule} starts causal",
        "set mask_schedule=bidirectional to go on as it was left",
    )


RULES: tuple[Rule, ...] = (experts_go_on, mask_goes_on)
