"""merge=ties: trim, elect signs, average what agrees (TIES-Merging, arXiv 2306.01708)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .average import wide
from .record import Input, Record
from .tensors import FLOATS
from .together import opened, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from embedexp.config.schema.merge import Ties

    from . import Score
    from .combining import Read
    from .tensors import Tensors

_HALF_BITS = 16


def merge(option: Ties, output: Path, score: Score | None = None) -> Record:
    """Write the base plus `scaling` times what the models have learned since (section 3.2).

    A model's change is its weights less the base's. Trim: of each model's changes, the largest
    `density` are kept. Elect: a weight's sign is that of the weighted sum of its kept changes.
    Merge: the weighted mean of the kept changes of that sign; none where the sum is zero. With
    `trim=tensor` the largest are sought in each tensor by itself, as mergekit does, and not in the
    whole model, as the paper does.

    Raises:
        UserError: models or base do not fit each other; the first difference is named.
    """
    weights = option.weights or [1.0] * len(option.inputs)
    with opened(option.inputs, option.base) as models:
        base, *changed = models
        heads = [m.head for m in models if m.head is not None]
        formula = Agreement(
            [m.weights for m in models],
            heads if len(heads) == len(models) else [],
            weights,
            option.density,
            option.scaling,
            per_tensor=option.trim == "tensor",
        )
        notes = write(models, formula, output, changed[0])
        inputs = [Input.of(base, role="base")] + [
            Input.of(model, weight=weight) for model, weight in zip(changed, weights, strict=True)
        ]
    return Record(option.model_dump(mode="json"), inputs, notes=notes)


class Agreement:
    """The formula; the first of `models`, and of their `heads`, is the base."""

    def __init__(
        self,
        models: Sequence[Tensors],
        heads: Sequence[Tensors],
        weights: Sequence[float],
        density: float,
        scaling: float,
        *,
        per_tensor: bool,
    ) -> None:
        self.models, self.heads, self.weights = models, heads, weights
        self.density, self.scaling, self.per_tensor = density, scaling, per_tensor
        self._of: object = None
        self._thresholds: list[float] = []

    def __call__(self, name: str, parts: Sequence[Read]) -> Tensor:
        """Some rows of the tensor `name`."""
        group = self.models if name in self.models[0] else self.heads
        of = (id(group), name if self.per_tensor else None)
        if of != self._of:
            names = [name] if self.per_tensor else list(group[0])
            self._thresholds = [
                threshold(lambda model=model: changes(group[0], model, names), self.density)  # type: ignore[misc]
                for model in group[1:]
            ]
            self._of = of
        base = parts[0]()
        kept = [
            trimmed(part() - base, limit)
            for part, limit in zip(parts[1:], self._thresholds, strict=True)
        ]
        return base + self.scaling * agreed(kept, self.weights)


def trimmed(change: Tensor, limit: float) -> Tensor:
    """The changes of at least `limit` in size, in float32, the others zero."""
    return torch.where(change.float().abs() >= limit, change, 0)


def agreed(kept: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted mean of those changes that have the sign of their weighted sum."""
    elected = torch.zeros_like(kept[0])
    for change, weight in zip(kept, weights, strict=True):
        elected += weight * change
    elected.sign_()
    total, divisor = torch.zeros_like(elected), torch.zeros_like(elected)
    for change, weight in zip(kept, weights, strict=True):
        joins = (change.sign() == elected) & (elected != 0)
        total += weight * torch.where(joins, change, 0)
        divisor += weight * joins
    return total / torch.where(divisor == 0, 1, divisor)


def changes(base: Tensors, model: Tensors, names: Iterable[str]) -> Iterator[Tensor]:
    """What a model's weights have become since the base, piece by piece."""
    for name in names:
        dtype = FLOATS.get(base.places[name].dtype)
        if dtype is None:
            continue
        for rows in base.pieces(name):
            before, after = (x.read(name, rows).to(wide(dtype)) for x in (base, model))
            yield after - before


def threshold(pieces: Callable[[], Iterator[Tensor]], density: float) -> float:
    """The size of the last change that is kept: of N, the max(1, int(density * N))-th largest.

    Found without holding them all: sizes as float32 are ordered as their bits are, so that the
    first half of the bits of the one sought is read off a histogram, and so is then the second.
    """
    prefix, rank = 0, -1
    for half in (1, 0):
        counts = torch.zeros(2**_HALF_BITS, dtype=torch.int64)
        for piece in pieces():
            bits = piece.float().abs().contiguous().view(torch.int32).flatten()
            upper = bits >> _HALF_BITS
            if half:
                counts += torch.bincount(upper, minlength=2**_HALF_BITS)
            else:
                lower = bits[upper == prefix] & (2**_HALF_BITS - 1)
                counts += torch.bincount(lower, minlength=2**_HALF_BITS)
        if half:
            rank = max(1, int(density * int(counts.sum())))
        from_above = counts.flip(0).cumsum(0)
        place = int((from_above < rank).sum())
        found = 2**_HALF_BITS - 1 - place
        rank -= int(from_above[place] - counts[found])
        prefix = found if half else (prefix << _HALF_BITS) | found
    return float(torch.tensor(prefix, dtype=torch.int32).view(torch.float32))
