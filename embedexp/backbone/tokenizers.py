"""Tokenizers: the built-in one, a named one, or the source's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.locations import PACKAGE

from .families import family_of
from .source import resolve

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone

TOKENIZER = "tokenizer.json"
IN_RUNS = ("tokenizer", "model")
"""Folders of a run directory that may hold a tokenizer."""

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
    if tokenizer.pad_token is None:
        # Causal models often come without; padding is masked, so that any token will do.
        tokenizer.pad_token = tokenizer.eos_token
    first = family_of(option.architecture).first_position(option.architecture)
    if first and option.positions is None and tokenizer.pad_token_id != first - 1:
        raise UserError(
            f"the tokenizer pads with token {tokenizer.pad_token_id}, the model with {first - 1}",
            where="backbone.tokenizer, backbone.architecture.pad_token_id",
            hint=f"set backbone.architecture.pad_token_id={tokenizer.pad_token_id} for a model "
            "with random weights, or use the tokenizer that belongs to the model",
        )
    return tokenizer


def read_back(tokenizer: PreTrainedTokenizerBase, model_type: str) -> bool:
    """Whether transformers reads the tokenizer as what it is beside a model of some family.

    For some families it insists on their own class, whatever the tokenizer's files say.
    """
    from transformers.models.auto import tokenization_auto

    if model_type not in tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS:
        return True
    own = tokenization_auto.TOKENIZER_MAPPING_NAMES.get(model_type) or ""
    return type(tokenizer).__name__.removesuffix("Fast") == str(own).removesuffix("Fast")


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
        inside = [folder / name for name in IN_RUNS if (folder / name / TOKENIZER).is_file()]
        return inside[0] if inside else folder
    named = option.model_copy(
        update={"source": option.tokenizer, "revision": None, "package": None}
    )
    return resolve(named, weights=False)
