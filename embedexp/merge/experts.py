"""Experts in the names of tensors: renumbering them, and finding who is who in two models."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .tensors import Tensors

EXPERT = re.compile(r"^(?P<group>.+)\.experts\.(?P<number>\d+)\.(?P<rest>.+)$")
TOGETHER = re.compile(r"^(?P<group>.+)\.experts\.(?P<rest>[A-Za-z_]\w*)$")
"""A tensor of all experts of a layer, one a row, as transformers' own experts have them."""

MATRICES = ("router.weight", "gate.weight")
"""The matrix of a router, beside its layer's experts: ours, and transformers' own."""

ROUTER = (*MATRICES, "first_router", "selection_bias", "gate.e_score_correction_bias")
"""All tensors there with one row per expert."""

CERTAIN = 1e-6
"""Another order must fit better than the given one by this share, or it is rounding."""


def renumbered(name: str, orders: Mapping[str, list[int]]) -> tuple[str, list[int] | None]:
    """The stored name of a tensor under `orders`, and where a row is an expert's, their order."""
    if not orders:
        return name, None
    if (match := EXPERT.match(name)) is not None:
        order = orders.get(match["group"])
        if order is None:
            return name, None
        return f"{match['group']}.experts.{order[int(match['number'])]}.{match['rest']}", None
    if (match := TOGETHER.match(name)) is not None:
        return name, orders.get(match["group"])
    for tail in ROUTER:
        if name.endswith(f".{tail}"):
            return name, orders.get(name.removesuffix(f".{tail}"))
    return name, None


def routed_groups(tensors: Tensors) -> dict[str, int]:
    """The layers in which a router chooses among experts, by name, and how many those are.

    Experts that tasks choose are not among them: their numbers mean something.
    """
    counts: dict[str, int] = {}
    for name in tensors:
        if (match := EXPERT.match(name)) is not None:
            counts[match["group"]] = max(counts.get(match["group"], 0), int(match["number"]) + 1)
        elif (match := TOGETHER.match(name)) is not None:
            counts[match["group"]] = tensors.places[name].shape[0]
    return {
        group: count
        for group, count in counts.items()
        if any(f"{group}.{tail}" in tensors for tail in MATRICES)
    }


def match(reference: Tensors, other: Tensors) -> dict[str, list[int]]:
    """How to number the experts of `other` so that they are nearest to those of `reference`.

    By layer; layers whose numbers are right already are left out. The order minimises the sum of
    squared differences of the experts' weights and their router rows: a linear assignment by inner
    products, here of what distinguishes each expert from the layer's mean.
    """
    from scipy.optimize import linear_sum_assignment

    found: dict[str, list[int]] = {}
    for group, count in routed_groups(reference).items():
        products, size = _products(reference, other, group, count)
        rows, columns = linear_sum_assignment(products, maximize=True)
        gain = products[rows, columns].sum() - np.trace(products)
        if gain > CERTAIN * size:
            found[group] = [int(column) for column in columns]
    return found


def _products(
    reference: Tensors, other: Tensors, group: str, count: int
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], float]:
    """Inner products `[E, E]` of the experts of two models, and the product of their norms."""
    products = torch.zeros(count, count, dtype=torch.float64)
    norms = torch.zeros(2, dtype=torch.float64)

    def add(a: torch.Tensor, b: torch.Tensor) -> None:
        nonlocal products
        a, b = (x.reshape(count, -1).double() for x in (a, b))
        a, b = a - a.mean(0), b - b.mean(0)
        products = products + a @ b.T
        norms.add_(torch.stack([a.square().sum(), b.square().sum()]))

    for tail in MATRICES:
        name = f"{group}.{tail}"
        if name in reference:
            add(reference.read(name), other.read(name))
    first = f"{group}.experts.0."
    for rest in [name.removeprefix(first) for name in reference if name.startswith(first)]:
        names = [f"{group}.experts.{number}.{rest}" for number in range(count)]
        for rows in reference.pieces(names[0], together=count):
            a, b = (torch.stack([x.read(name, rows) for name in names]) for x in (reference, other))
            add(a, b)
    for name in reference:
        if (found := TOGETHER.match(name)) is not None and found["group"] == group:
            for part in reference.pieces_within(name):
                add(reference.read_within(name, part), other.read_within(name, part))
    return products.numpy(), float(norms.prod().sqrt())
