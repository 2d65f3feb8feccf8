"""Reading a model: an export, a finished run, or a Hugging Face or sentence-transformers folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from embedexp.config.errors import UserError
from embedexp.config.frozen import completed

from . import building, files
from .embedder import Embedder
from .foreign import describe, locate
from .model_config import ModelConfig
from .saving import FORMAT

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.backbone import Backbone


def load(path: str | Path, device: str = "cpu") -> Embedder:
    """The embedder in a folder: an export, a finished run, or a dense model made elsewhere.

    `path` may also name a model on the hub. Models made elsewhere keep the mask of their family,
    their pooling, prompts and length. Code that a folder ships is never executed.

    Raises:
        UserError: there is no model, or one of a kind that is not supported.
    """
    folder = locate(path)
    if (folder / files.OURS).is_file():
        return load_own(folder).to(device)
    config = describe(folder)
    return Embedder(config, *building.load(config)).to(device)


def load_own(folder: Path) -> Embedder:
    """An embedder that `Embedder.save` wrote.

    Raises:
        UserError: it was written by an incompatible version, or its weights do not fit.
    """
    config = read_config(folder)
    return Embedder(config, *building.load(config))


def read_config(folder: Path) -> ModelConfig:
    """The configuration in a folder, with the folder as its source.

    Raises:
        UserError: it was written by an incompatible version.
    """
    content = files.read_json(folder / files.OURS)
    try:
        if content.get("format") != FORMAT:
            raise ValueError(f"format {content.get('format')}, this version reads {FORMAT}")
        model = content.get("model")
        config = ModelConfig.model_validate(completed(model) if isinstance(model, dict) else model)
    except (ValidationError, ValueError) as error:
        first = str(error.errors()[0]["loc"]) if isinstance(error, ValidationError) else str(error)
        raise UserError(
            f"another version of embedexp wrote this model: {first}",
            where=str(folder / files.OURS),
            hint="load it with the version that wrote it",
        ) from None
    return config.model_copy(update={"backbone": from_folder(config.backbone, folder)})


def from_folder(option: Backbone, folder: Path) -> Backbone:
    """The option with a folder as its source, and no code of it trusted."""
    update = {"source": str(folder), "tokenizer": str(folder), "trust_remote_code": False}
    return option.model_copy(update=update)
