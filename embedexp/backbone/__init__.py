"""Encoders and causal language models from Hugging Face, as packed backbones.

Importing this package imports no torch, so that counting parameters stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.config.schema.backbone import Backbone
    from embedexp.config.schema.routing import Routing

__all__ = ["experts_in", "load", "load_tokenizer"]


def experts_in(option: Backbone) -> Routing | None:
    """The routing that the source of pretrained weights has; None where it is dense.

    Raises:
        UserError: there is no such source, or its configuration is of an unsupported kind.
    """
    from .weights import experts_in as implementation

    return implementation(option)


def load(
    option: Backbone,
    device: str = "cpu",
    route: Callable[[PreTrainedModel], PreTrainedModel] | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None]:
    """The model that a backbone option describes, without head or pooler, and its tokenizer.

    On `device="meta"` the model is built from `architecture` alone, without weights, downloads or
    a tokenizer (None). `route` makes experts of the model's MLPs, in place; where the source has
    experts already (`experts_in`), theirs are the weights.

    Raises:
        UserError: no such source, no hub, wrong checksum, unsupported family, or an architecture
            that contradicts the source's.
    """
    from .loading import load as implementation

    return implementation(option, device, route)


def load_tokenizer(option: Backbone) -> PreTrainedTokenizerBase:
    """The tokenizer of a backbone option: builtin, named, or its source's.

    Raises:
        UserError: it cannot be found.
    """
    from .tokenizers import load_tokenizer as implementation

    return implementation(option)
