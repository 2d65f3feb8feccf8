"""A linear layer after pooling: vectors of other widths than the hidden states'.

Conan-embedding-v1 ends in one (arXiv 2408.15710); sentence-transformers calls it Dense.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from embedexp.backbone.source import linear_layers, resolve
from embedexp.backbone.weights import PROJECTION
from embedexp.config.errors import UserError
from embedexp.config.trained import options_of

from . import files

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from .model_config import ModelConfig

log = logging.getLogger(__name__)

PREFIX = PROJECTION.removesuffix(".safetensors")


def build(config: ModelConfig, hidden: int, dtype: torch.dtype, device: str) -> nn.Linear | None:
    """The layer `[width, hidden]` with a bias, the source's where it has one; None without one.

    A new one is drawn from torch's global generator. Of a source that was made elsewhere, the
    backbone alone may be meant.

    Raises:
        UserError: the source ends in a layer of another width, or in one that the option has not.
    """
    width = getattr(config.embedding, "projection", None)
    stored = None
    if device != "meta" and config.backbone.weights == "pretrained":
        folder = resolve(config.backbone)
        if width is not None or options_of(folder) is not None:
            stored = read(folder)
        elif linear_layers(folder):
            log.warning(
                "%s ends in a linear layer, which is left out (embedding.projection=null)", folder
            )
    if stored is not None and (found := len(stored["weight"])) != width:
        raise UserError(
            f"the source ends in a linear layer to {found} dimensions, not embedding.projection="
            f"{'null' if width is None else width}",
            where=str(config.backbone.source),
            hint=f"set embedding.projection={found}, with embedding=mean or another pooling",
        )
    if width is None:
        return None
    layer = nn.Linear(hidden, width, dtype=dtype, device=device)
    if stored is not None:
        layer.load_state_dict(stored)
    return layer


def read(folder: Path) -> dict[str, Tensor] | None:
    """The weights of the layer that the model in a folder ends in, if it does.

    Raises:
        UserError: the layer's weights are missing.
    """
    options = options_of(folder)
    if options is not None:
        if (options.get("embedding") or {}).get("projection") is None:
            return None
        return _named(folder, f"{PREFIX}.")
    if (place := dense(folder)) is None:
        return None
    state = _named(folder / place, "linear.")
    # Some published layers have no bias: one of zeros changes nothing.
    state.setdefault("bias", torch.zeros(len(state["weight"]), dtype=state["weight"].dtype))
    return state


def dense(folder: Path) -> str | None:
    """The folder of a sentence-transformers model's one linear layer; None if it has none.

    Raises:
        UserError: there are several, or something follows the layer that is no normalisation.
    """
    places = linear_layers(folder)
    if not places:
        return None
    if len(places) > 1:
        raise UserError(
            f"the model has {len(places)} linear layers, and one is supported",
            where=str(folder / files.MODULES),
        )
    settings: dict[str, Any] = files.read_json(folder / places[0] / "config.json")
    activation = str(settings.get("activation_function", "")).rsplit(".", 1)[-1]
    if activation not in ("", "Identity"):
        raise UserError(
            f"the model's linear layer is followed by {activation}, which is not supported",
            where=str(folder / places[0]),
        )
    return str(places[0])


def width_of(folder: Path) -> int | None:
    """Dimensions that the linear layer of a sentence-transformers model gives, if it has one.

    Raises:
        UserError: it is of a kind that is not supported.
    """
    place = dense(folder)
    if place is None:
        return None
    return int(files.read_json(folder / place / "config.json")["out_features"])


def write(layer: nn.Linear, folder: Path) -> None:
    """Write the layer beside the weights of the backbone."""
    from safetensors.torch import save_file

    state = {f"{PREFIX}.{name}": value.contiguous() for name, value in layer.state_dict().items()}
    save_file(state, folder / PROJECTION, metadata={"format": "pt"})


def _named(folder: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors in a folder whose names begin so, without that."""
    from safetensors import safe_open

    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                if name.startswith(prefix):
                    found[name.removeprefix(prefix)] = file.get_tensor(name)
    if "weight" not in found:
        raise UserError(
            "the weights of the model's linear layer are not there",
            where=str(folder),
            hint="copy the whole folder; only safetensors are read",
        )
    return found
