"""From tensors of several models to a file of merged ones, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from embedexp.config.errors import UserError
from embedexp.data.progress import Progress

from .average import mean, wide
from .tensors import FLOATS, Tensors, Writer

if TYPE_CHECKING:
    from pathlib import Path

    from .tensors import Rows

Part = tuple[Tensors, str]
"""A tensor of a model."""

Plan = Mapping[str, Sequence[Part]]
"""What each tensor of the result is made of; its type and shape are those of the first part."""

Read = Callable[[], Tensor]
Formula = Callable[[str, Sequence[Read]], Tensor]
"""From a tensor's name and the ways to read the same rows of each part, in float32 at least
(float64 where that is stored), to these rows of the result."""


def uniform(name: str, parts: Sequence[Read]) -> Tensor:
    """The equal average."""
    return mean(parts, [1.0] * len(parts))


def weighted(shares: Sequence[float]) -> Formula:
    """The average with these weights, which need not sum to 1."""
    return lambda name, parts: mean(parts, shares)


def same_names(models: Sequence[Tensors]) -> Plan:
    """Each tensor from the tensors of its name."""
    return {name: [(model, name) for model in models] for name in models[0]}


def combine(plan: Plan, formula: Formula, path: Path) -> None:
    """Write a safetensors file with what `formula` makes of the parts of each tensor.

    Memory holds pieces of a million numbers, or of a row, however many and large the models are.
    Tensors that are no weights must be equal everywhere.

    Raises:
        UserError: such tensors differ.
    """
    first = {name: parts[0][0].places[parts[0][1]] for name, parts in plan.items()}
    layout = {name: (place.dtype, place.shape) for name, place in first.items()}
    writer = Writer(path, layout)
    total = sum(tensors.size(name) for parts in plan.values() for tensors, name in parts[:1])
    with Progress("merge", total, "weights") as progress:
        for name in writer.names:
            parts, dtype = plan[name], FLOATS.get(first[name].dtype)
            leading, own = parts[0]
            for rows in leading.pieces(own):
                if dtype is None:
                    piece = _equal(name, parts, rows)
                else:
                    reads = [partial(_read, *part, rows, wide(dtype)) for part in parts]
                    piece = formula(name, reads).to(dtype)
                writer.write(piece)
                progress.add(piece.numel())
    writer.close()


def _read(tensors: Tensors, name: str, rows: Rows, dtype: torch.dtype) -> Tensor:
    return tensors.read(name, rows).to(dtype)


def _equal(name: str, parts: Sequence[Part], rows: Rows) -> Tensor:
    values = [tensors.read(own, rows) for tensors, own in parts]
    if any(not torch.equal(value, values[0]) for value in values[1:]):
        raise UserError(
            f"{name} is no weight and differs between the models",
            where="merge.inputs",
            hint="merge models of one architecture",
        )
    return values[0]
