"""Handing a model over: a run's model in the format that another program reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.embedding import export as formats
from embedexp.embedding import load, saving
from embedexp.embedding.export.precision import cast
from embedexp.embedding.foreign import locate

from . import card

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding import Embedder
    from embedexp.embedding.export import DType


def export(model: str | Path, format: str, to: str | Path, dtype: DType | None = None) -> Embedder:
    """Write a run's model, or the model in a folder, in another format with a model card.

    `dtype` is the type of the weights that are written, None keeps the model's. The folder is
    complete or not there. Returns the embedder as it was written; `embedexp.load` reads all
    formats back.

    Raises:
        UserError: the format cannot express the model (the first reason is named), a weight is
            beyond the type's range, or the folder holds something else.
    """
    formats.check(format, dtype)
    source = locate(model)
    embedder = load(model)
    if dtype is not None:
        cast(embedder, dtype)
    with saving.staged(to) as folder:
        formats.write(embedder, format, folder)
        card.write(folder, format=format, run=card.run_of(source))
    return embedder
