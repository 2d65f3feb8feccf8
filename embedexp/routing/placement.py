"""Which blocks are routed, and how a module in a block is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from embedexp.backbone.counts import routed_layers
from embedexp.backbone.families import Family, family_of
from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transformers import PreTrainedModel


def routed_blocks(
    model: PreTrainedModel, placement: str | list[int]
) -> Iterator[tuple[int, nn.Module, Family]]:
    """The routed blocks with their 0-based layers, each prepared: its MLP is one module.

    Raises:
        UserError: the placement names no layer, or one that the model lacks.
    """
    family = family_of({"model_type": model.config.model_type})
    blocks = model.get_submodule(family.blocks)
    assert isinstance(blocks, nn.ModuleList)
    layers = routed_layers(placement, len(blocks))
    outside = [layer for layer in layers if layer >= len(blocks)]
    if outside:
        raise UserError(
            f"routing.placement names layer {outside[0]}, the last is {len(blocks) - 1}",
            hint="layers count from 0",
        )
    if not layers:
        raise UserError(
            f"routing.placement={placement} routes none of the {len(blocks)} layers",
            hint="use routing.placement=every",
        )
    for layer in layers:
        family.prepare(blocks[layer])
        yield layer, blocks[layer], family


def replace(block: nn.Module, path: str, build: Callable[[nn.Module], nn.Module]) -> None:
    """Put `build(module)` in the place of the module at a dotted path in a block."""
    block.set_submodule(path, build(block.get_submodule(path)))
