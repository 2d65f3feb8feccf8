"""What all merges of equal models have in common: read, compare, match experts, write."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.backbone.heads import FILE as HEAD

from .agreement import require_agreement
from .combining import combine, same_names
from .experts import match
from .folder import describe, weights_path, writing
from .models import Model
from .record import Input, Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embedexp.config.schema.base import Option

    from .combining import Formula
    from .tensors import Tensors


@contextmanager
def opened(paths: Sequence[str], base: str | None = None) -> Iterator[list[Model]]:
    """The models, checked against the first, their experts numbered as the first one's.

    `base` comes first in the list, if there is one; of it only the weights matter.

    Raises:
        UserError: one does not fit; the first difference is named.
    """
    with tempfile.TemporaryDirectory() as scratch:
        models = [Model(path, Path(scratch)) for path in paths]
        for other in models[1:]:
            require_agreement(models[0], other)
        if base is not None:
            models.insert(0, Model(base, Path(scratch)))
            require_agreement(models[1], models[0], weights_only=True)
        for other in models[1:]:
            other.weights.orders = match(models[0].weights, other.weights)
        yield models


def write(models: Sequence[Model], formula: Formula, output: Path, like: Model) -> list[str]:
    """Write the model that `formula` makes of `models`, described as `like`; returns notes.

    Heads of language models are merged likewise, where all have one.
    """
    notes: list[str] = []
    with writing(output) as folder:
        combine(same_names([m.weights for m in models]), formula, weights_path(folder))
        heads: list[Tensors] = [m.head for m in models if m.head is not None]
        if len(heads) == len(models) and len({_shape(head) for head in heads}) == 1:
            combine(same_names(heads), formula, folder / HEAD)
        elif heads:
            notes.append("The language-model head was left out: not all models have the same.")
        describe(like.embedder, folder)
    return notes


def _shape(head: Tensors) -> tuple[object, ...]:
    return tuple(sorted((name, place.shape) for name, place in head.places.items()))


def merged(
    option: Option,
    paths: Sequence[str],
    shares: Sequence[float] | None,
    formula: Formula,
    output: Path,
) -> Record:
    """Merge models of one kind by `formula` into the folder `output`; `shares` are recorded.

    Raises:
        UserError: the models differ in more than their weights.
    """
    with opened(paths) as models:
        notes = write(models, formula, output, models[0])
        total = sum(shares) if shares is not None else 1.0
        inputs = [
            Input.of(model, weight=None if shares is None else shares[i] / total)
            for i, model in enumerate(models)
        ]
    return Record(option.model_dump(mode="json"), inputs, notes=notes)
