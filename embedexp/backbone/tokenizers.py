"""Tokenizers: the built-in one, a named one, or the source's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.locations import PACKAGE

from .source import resolve

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone

BUILTIN = PACKAGE / "data" / "builtin_files" / "tokenizer"


def load_tokenizer(option: Backbone) -> PreTrainedTokenizerBase:
    """The tokenizer of a backbone option.

    Raises:
        UserError: it cannot be found, or its vocabulary is larger than the model's.
    """
    from transformers import AutoTokenizer

    folder = locate(option)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=option.trust_remote_code, local_files_only=True
        )
    except (OSError, ValueError) as error:
        raise UserError(
            f"no tokenizer in {folder}: {str(error).splitlines()[0]}",
            hint="set backbone.tokenizer to a hub name, a folder, or builtin",
        ) from None
    size = option.architecture.get("vocab_size")
    if size is not None and len(tokenizer) > size:
        raise UserError(
            f"the tokenizer has {len(tokenizer)} tokens, the model only {size}",
            where="backbone.tokenizer, backbone.architecture.vocab_size",
            hint="use the tokenizer that belongs to the model, or raise vocab_size",
        )
    return tokenizer


def locate(option: Backbone) -> Path:
    """The folder with the tokenizer's files."""
    if option.tokenizer == "builtin":
        return BUILTIN
    if option.tokenizer is None:
        if option.source is None:
            raise UserError(
                f"backbone {option.name} has neither a tokenizer nor a source",
                hint="set backbone.tokenizer to builtin, a hub name or a folder",
            )
        return resolve(option, weights=False)
    folder = Path(option.tokenizer).expanduser()
    if folder.is_dir():
        return folder
    named = option.model_copy(
        update={"source": option.tokenizer, "revision": None, "package": None}
    )
    return resolve(named, weights=False)
