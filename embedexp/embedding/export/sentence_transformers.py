"""A folder for sentence-transformers: plain where its own modules can express the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import saving

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding import Embedder


def write(embedder: Embedder, folder: Path) -> None:
    """Write what a run leaves in `model/`: any model, experts and masks included."""
    saving.write(embedder, folder)
