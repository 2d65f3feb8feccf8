"""The models that are merged: their options, what their tensors are called, and where they lie."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from embedexp.backbone import load_tokenizer
from embedexp.backbone.heads import FILE as HEAD
from embedexp.config.predecessors import run_signature
from embedexp.config.sign import model_hash
from embedexp.embedding import Embedder, building, files, load
from embedexp.embedding.foreign import describe, locate
from embedexp.embedding.loading import from_folder, read_config

from .tensors import Tensors

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding.model_config import ModelConfig


class Model:
    """A model in a folder: `weights` and `head` (of a language model, if it has one) are tensors.

    `embedder` has no weights, only what says how it computes. A model made elsewhere whose tensors
    have other names than ours is read and written once, to `scratch`.
    """

    def __init__(self, path: str, scratch: Path) -> None:
        self.path, self.folder = path, locate(path)
        own = (self.folder / files.OURS).is_file()
        self.signature = run_signature(path)
        self.content = model_hash(self.folder)
        config = read_config(self.folder) if own else describe(self.folder)
        self.embedder = outline(config, self.folder)
        folder = self.folder
        weights = Tensors.of(weight_files(folder))
        if not own:
            # A projection lies in a folder of its own there.
            named = _ours(weights, self.embedder) if self.embedder.projection is None else None
            if named is None:
                folder = scratch / self.content[:16]
                load(self.folder).save(folder)
                named = Tensors.of(weight_files(folder))
            weights = named
        self.weights = weights
        self.head = Tensors.of([folder / HEAD]) if (folder / HEAD).is_file() else None

    @property
    def config(self) -> ModelConfig:
        """The options that make the model."""
        return self.embedder.config


def outline(config: ModelConfig, tokenizer: Path) -> Embedder:
    """An embedder without weights, with the tokenizer that lies in a folder."""
    model, _, projection = building.load(config, "meta")
    found = load_tokenizer(from_folder(config.backbone, tokenizer))
    return Embedder(config, model, found, projection)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model, in one piece or in several, without the head."""
    return sorted(path for path in folder.glob("*.safetensors") if path.name != HEAD)


def _ours(weights: Tensors, embedder: Embedder) -> Tensors | None:
    """Tensors of a model made elsewhere under our names; None if they can't be told by name."""
    wanted = embedder.model.state_dict().keys()
    prefix = re.compile(rf"^{re.escape(embedder.model.base_model_prefix)}\.")
    places = {prefix.sub("", name): place for name, place in weights.places.items()}
    for found in (weights.places, places):
        if wanted <= found.keys():
            return Tensors({name: found[name] for name in wanted})
    return None
