"""Encoders and causal language models from Hugging Face, as packed backbones.

Importing this package imports no torch, so that counting parameters stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone

__all__ = ["load", "load_tokenizer"]


def load(
    option: Backbone, device: str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """The model that a backbone option describes, without head or pooler, and its tokenizer.

    On `device="meta"` the model is built from `architecture` alone, without weights, downloads or
    a tokenizer (None).

    Raises:
        UserError: no such source, no hub, wrong checksum, unsupported family, or an architecture
            that contradicts the source's.
    """
    from .loading import load as implementation

    return implementation(option, device)


def load_tokenizer(option: Backbone) -> PreTrainedTokenizerBase:
    """The tokenizer of a backbone option: builtin, named, or its source's.

    Raises:
        UserError: it cannot be found.
    """
    from .tokenizers import load_tokenizer as implementation

    return implementation(option)
