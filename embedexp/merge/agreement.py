"""Models that are merged must be one model but for their weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from embedexp.backbone.families import family_of
from embedexp.config.errors import UserError
from embedexp.config.trained import TRAINING_ONLY
from embedexp.embedding.foreign import NOT_ARCHITECTURE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from embedexp.embedding import Embedder

    from .models import Model
    from .tensors import Tensors

_NOT_COMPUTED = frozenset(
    (*NOT_ARCHITECTURE, "_name_or_path", "use_cache", "id2label", "label2id", "max_length")
)
"""What a transformers configuration says besides how the model computes."""

_BACKENDS = frozenset(("padding", "truncation"))
"""What a tokenizer's file says besides how it tokenises."""


def require_agreement(first: Model, other: Model, *, weights_only: bool = False) -> None:
    """Whether two models differ in their weights alone.

    With `weights_only`, of the two only the weights are used: pooling and prompts may differ.

    Raises:
        UserError: they do not; the first difference is named.
    """
    difference = next(differences(first, other, weights_only=weights_only), None)
    if difference is not None:
        raise UserError(
            f"can't merge: {difference}",
            where=f"{first.path} and {other.path}",
            hint="merge models of one backbone, tokenizer, routing and embedding",
        )


def differences(first: Model, other: Model, *, weights_only: bool = False) -> Iterator[str]:
    """What two models differ in beside the values of their weights, in words."""
    a, b = first.embedder, other.embedder
    yield from _compared("backbone.architecture.", _architecture(a), _architecture(b))
    if a.config.backbone.dtype != b.config.backbone.dtype:
        yield _words("backbone.dtype", a.config.backbone.dtype, b.config.backbone.dtype)
    yield from _compared("routing.", _routing(a), _routing(b))
    if not weights_only:
        masks = [e.config.mask_schedule for e in (a, b)]
        finals = [e.schedule.mask(e.schedule.final) for e in (a, b)]
        named = all(isinstance(mask, str) for mask in finals)
        if finals[0] != finals[1] if named else masks[0] != masks[1]:
            yield _words("mask_schedule", masks[0].name, masks[1].name)
        yield from _compared("embedding.", *_flat(a, b))
    yield from _compared("the tokenizer's ", _tokenizer(a), _tokenizer(b), values=False)
    yield from _tensors(first.weights, other.weights)


def _words(key: str, left: Any, right: Any) -> str:
    return f"{key} is {left!r} in the first and {right!r} in the other"


def _compared(
    prefix: str, left: Mapping[str, Any], right: Mapping[str, Any], *, values: bool = True
) -> Iterator[str]:
    # The option's name first: it explains why other keys differ.
    for key in sorted(left.keys() | right.keys(), key=lambda key: (key != "name", key)):
        if left.get(key) != right.get(key):
            words = _words(f"{prefix}{key}", left.get(key), right.get(key))
            yield words if values else f"{prefix}{key} differs"


def _architecture(embedder: Embedder) -> dict[str, Any]:
    stated: dict[str, Any] = embedder.model.config.to_dict()
    family = family_of(stated)
    ignored = _NOT_COMPUTED | {family.dropout, family.attention_dropout}
    return {key: value for key, value in stated.items() if key not in ignored}


def _routing(embedder: Embedder) -> dict[str, Any]:
    option = embedder.config.routing.model_dump()
    kept = TRAINING_ONLY - {"name", "placement"}
    return {key: value for key, value in option.items() if key not in kept}


def _flat(a: Embedder, b: Embedder) -> Iterator[dict[str, Any]]:
    """The options of the embedding with the prompts one by one."""
    for embedder in (a, b):
        option = embedder.config.embedding.model_dump()
        prompts = option.pop("prompts")
        yield option | {f"prompts.{task}": prompt for task, prompt in prompts.items()}


def _tokenizer(embedder: Embedder) -> dict[str, Any]:
    tokenizer: Any = embedder.text_tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    vocabulary = {"vocabulary": tokenizer.get_vocab()}
    if backend is None:
        return vocabulary
    parts: dict[str, Any] = json.loads(backend.to_str())
    return vocabulary | {key: part for key, part in parts.items() if key not in _BACKENDS}


def _tensors(first: Tensors, other: Tensors) -> Iterator[str]:
    for name in sorted(first.places.keys() ^ other.places.keys()):
        yield f"only the {'first' if name in first else 'other'} has the tensor {name}"
    for name, place in first.places.items():
        if name in other and place.shape != other.places[name].shape:
            yield _words(f"the shape of {name}", place.shape, other.places[name].shape)
