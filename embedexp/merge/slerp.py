"""merge=slerp: between two models on an arc, not on a straight line."""

from __future__ import annotations

from math import acos, sin
from typing import TYPE_CHECKING

import torch

from .record import Input, Record
from .together import opened, write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

    from embedexp.config.schema.merge import Slerp

    from . import Score
    from .combining import Read
    from .models import Model

LINEAR = 0.9995
"""Directions with a cosine of more than this, in size, are interpolated on a straight line."""


def merge(option: Slerp, output: Path, score: Score | None = None) -> Record:
    """Write the spherical interpolation of two models, each tensor as one vector.

    With c the cosine of the angle a between two tensors, the result is
    sin((1-t)a)/sin(a) * first + sin(ta)/sin(a) * second, applied to the tensors as they are; on a
    straight line where |c| > 0.9995 (Shoemake 1985; mergekit's slerp).

    Raises:
        UserError: the models differ in anything but their weights; the first difference is named.
    """
    with opened(option.inputs) as models:
        formula = Interpolation(models, option.t)
        notes = write(models, formula, output, models[0])
        inputs = [
            Input.of(model, weight=weight)
            for model, weight in zip(models, (1 - option.t, option.t), strict=True)
        ]
    return Record(option.model_dump(mode="json"), inputs, notes=notes)


def coefficients(pieces: Iterator[tuple[Tensor, Tensor]], t: float) -> tuple[float, float] | None:
    """What to multiply two vectors with, given in pieces; None for a straight line.

    Sums are taken in float64.
    """
    sums = torch.zeros(3, dtype=torch.float64)
    for a, b in pieces:
        a, b = a.double().flatten(), b.double().flatten()
        sums += torch.stack([a @ b, a @ a, b @ b])
    product, first, second = sums.tolist()
    if not first * second:
        return None
    cosine = product / (first * second) ** 0.5
    if abs(cosine) > LINEAR:
        return None
    angle = acos(cosine)
    return sin((1 - t) * angle) / sin(angle), sin(t * angle) / sin(angle)


class Interpolation:
    """The formula, which looks at a whole tensor before it makes the first piece of it."""

    def __init__(self, models: Sequence[Model], t: float) -> None:
        self.models, self.t = models, t
        self._name: str | None = None
        self._coefficients: tuple[float, float] | None = None

    def __call__(self, name: str, parts: Sequence[Read]) -> Tensor:
        """Some rows of the tensor `name`."""
        if name != self._name:
            self._name, self._coefficients = name, coefficients(self._pieces(name), self.t)
        a, b = (part() for part in parts)
        if self._coefficients is None:
            return torch.lerp(a, b, self.t)
        return self._coefficients[0] * a + self._coefficients[1] * b

    def _pieces(self, name: str) -> Iterator[tuple[Tensor, Tensor]]:
        """A tensor of the models, or of their heads."""
        model = self.models[0]
        pair = [
            m.weights if name in model.weights or m.head is None else m.head for m in self.models
        ]
        for rows in pair[0].pieces(name):
            yield pair[0].read(name, rows), pair[1].read(name, rows)
