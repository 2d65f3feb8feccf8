"""The folder of a merged model: complete or not at all, described like any other of ours."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from embedexp.embedding import files, saving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.embedding import Embedder


@contextmanager
def writing(output: Path) -> Iterator[Path]:
    """A folder to write a model into; it gets its name when all is there."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    if output.exists():
        shutil.rmtree(output)
    unfinished.rename(output)


def describe(embedder: Embedder, folder: Path) -> None:
    """Write all files of a model but its weights, which `embedder` need not have."""
    # Merging writes a projection among the other weights, where transformers expects none.
    plain = saving.is_plain(embedder) and embedder.projection is None
    if plain:
        model = embedder.model
        model.config.architectures = [type(model).__name__]
        model.config.dtype = model.dtype
        model.config.save_pretrained(folder)
    saving.write_description(embedder, folder, plain=plain)


def weights_path(folder: Path) -> Path:
    """Where the weights go."""
    return folder / files.WEIGHTS
