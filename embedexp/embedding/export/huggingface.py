"""A folder for transformers' `AutoModel`: the backbone and its tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.backbone.lora import merged
from embedexp.backbone.quiet import quiet
from embedexp.config.errors import UserError

from .. import files, saving

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.embedding import Embedder


def write(embedder: Embedder, folder: Path) -> None:
    """Write `config.json`, weights and tokenizer; pooling and prompts are in `embedexp.json`.

    Raises:
        UserError: transformers' own classes are not the model; names the first reason.
    """
    if (reason := saving.obstacle(embedder)) is not None:
        raise UserError(
            f"format huggingface cannot express this model: {reason}",
            hint="use --format sentence_transformers",
        )
    with merged(embedder.model):
        saving.write_weights(embedder, folder, plain=True)
    with quiet():
        embedder.text_tokenizer.save_pretrained(folder)
    content = {
        "format": saving.FORMAT,
        "model": saving.self_contained(embedder).model_dump(mode="json"),
    }
    files.write_json(folder / files.OURS, content)
