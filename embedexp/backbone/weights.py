"""Weights that transformers does not read itself: ours, and those in Nomic's published layout."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from embedexp.config.errors import UserError
from embedexp.config.schema.backbone import Backbone
from embedexp.config.schema.base import WRITTEN_BEFORE
from embedexp.config.trained import OURS, options_of, routing_of

from . import nomic_layout
from .families import family_of
from .positions import native
from .source import CONFIG, is_own, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Routing

HEAD = "head.safetensors"
"""The file of a language-model head, which lies beside the weights of the model."""

PROJECTION = "projection.safetensors"
"""The file of a linear layer after pooling; where merging wrote, its tensors are among the rest."""


def raw_config(folder: Path) -> dict[str, Any]:
    """What the folder's `config.json` says; empty where there is none."""
    path = folder / CONFIG
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return found


def architecture_in(folder: Path) -> dict[str, Any] | None:
    """The architecture of a folder whose weights `state_in` reads; None if transformers does.

    Raises:
        UserError: another version wrote the folder, or it is of an unsupported kind.
    """
    if is_own(folder):
        try:
            stated = (options_of(folder) or {}).get("backbone")
            return native(Backbone.model_validate(stated, context=WRITTEN_BEFORE))
        except ValidationError as error:
            raise UserError(
                f"another version of embedexp wrote this model: {error.errors()[0]['loc']}",
                where=str(folder / OURS),
                hint="load it with the version that wrote it",
            ) from None
    raw = raw_config(folder)
    return nomic_layout.architecture(raw) if nomic_layout.is_published(raw) else None


def experts_in(option: Backbone) -> Routing | None:
    """The routing that the source of pretrained weights has; None where it is dense.

    Raises:
        UserError: there is no such source, or its configuration is of an unsupported kind.
    """
    if option.weights != "pretrained":
        return None
    return experts_of(resolve(option, weights=False))


def experts_of(folder: Path) -> Routing | None:
    """The routing of the model in a folder; None where it is dense.

    Raises:
        UserError: its configuration is of an unsupported kind.
    """
    raw = raw_config(folder)
    if nomic_layout.is_published(raw):
        from embedexp.config.schema.routing import MoE

        found = nomic_layout.routing(raw)
        return None if found is None else MoE.model_validate(found)
    routing = routing_of(folder) if is_own(folder) else None
    return None if routing is None or routing.name == "dense" else routing


def state_in(folder: Path) -> dict[str, Tensor]:
    """The weights of a folder under the names of our modules, from all of its safetensors."""
    from safetensors.torch import load_file

    state: dict[str, Tensor] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            if path.name not in (HEAD, PROJECTION):
                state |= load_file(path)
    except OSError as error:
        raise unfit(folder, str(error)) from None
    raw = raw_config(folder)
    if raw:
        return nomic_layout.read(state, raw)
    prefix = PROJECTION.removesuffix("safetensors")
    return {name: value for name, value in state.items() if not name.startswith(prefix)}


def fill(model: PreTrainedModel, state: Mapping[str, Tensor], folder: Path) -> PreTrainedModel:
    """Give a model the weights of a folder; blocks that it does not have are left out.

    Raises:
        UserError: a weight is missing, left over, or of another shape.
    """
    blocks = family_of({"model_type": model.config.model_type}).blocks
    kept = len(model.get_submodule(blocks))
    block = re.compile(re.escape(blocks) + r"\.(\d+)\.")
    used = {
        name: value
        for name, value in state.items()
        if not (match := block.match(name)) or int(match[1]) < kept
    }
    try:
        model.load_state_dict(used)
    except RuntimeError as error:
        raise unfit(folder, str(error)) from None
    return model.eval()


def unfit(folder: Path, message: str) -> UserError:
    """The mistake of weights that belong to another model."""
    return UserError(
        f"the weights do not fit the model: {message.splitlines()[-1].strip()[:120]}",
        where=str(folder),
        hint="save the model again, or copy the whole folder",
    )


def state_dtype(model: PreTrainedModel) -> str:
    """The type of a model's weights, as configurations name it."""
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def stored_dtype(folder: Path) -> str:
    """The type of the first floating-point weight in a folder's safetensors."""
    from safetensors import safe_open

    names = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                if (kind := file.get_slice(name).get_dtype()) in names:
                    return names[kind]
    return "unknown"
