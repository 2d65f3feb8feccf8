"""Linear layers whose weights are laid out once for many batches on a CPU."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORTHWHILE = 4_096
"""Tokens from which laying out the weights costs less than it saves."""


@contextmanager
def prepacked(model: nn.Module, tokens: int) -> Iterator[None]:
    """Inside, float32 linear layers on a CPU multiply weights that are laid out for oneDNN.

    A plain layer lays its weights out anew in every call, or multiplies them as they lie. For few
    `tokens`, on other devices and in other precisions, nothing changes. The laid-out weights take
    as much memory as the layers' own; weights must not change inside, and gradients don't flow.
    """
    layers = [layer for layer in model.modules() if _fits(layer)] if tokens >= WORTHWHILE else []
    try:
        for layer in layers:
            # An attribute of the instance goes before the method of its class.
            layer.forward = _multiply(layer)
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)


def _fits(layer: nn.Module) -> bool:
    """Whether it is a linear layer that nothing has changed, in float32 on a CPU."""
    return (
        type(layer) is nn.Linear
        and "forward" not in layer.__dict__
        and layer.weight.device.type == "cpu"
        and layer.weight.dtype == torch.float32
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    )


def _multiply(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)

    def forward(rows: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
        return found

    return forward
