"""Low-rank adapters through peft: only they are trained, and they disappear on export."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import nn

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel

    from embedexp.config.schema.backbone import LoRA

    from .families import Family

ALL = "all"
"""Stands for every linear layer of the blocks."""

ADAPTER = "lora_"
"""What the names of adapters' parameters have in them, and no others'."""


def attach(option: LoRA, model: PreTrainedModel, family: Family) -> None:
    """Put adapters beside the named linear layers, in place, and freeze everything else.

    The update is zero at first: the second factor is zero, the first random, from torch's global
    generator (LoRA, arXiv 2106.09685).

    Raises:
        UserError: peft is not installed, or a target names no linear layer.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UserError(
            "backbone.lora needs peft, which is not installed",
            hint="pip install embedexp[lora], or set backbone.lora=null to train all weights",
        ) from None
    config = LoraConfig(
        r=option.rank,
        lora_alpha=option.alpha,  # type: ignore[arg-type, unused-ignore]
        lora_dropout=option.dropout,
        target_modules=targets(option, model, family),
    )
    inject_adapter_in_model(config, model)


def targets(option: LoRA, model: PreTrainedModel, family: Family) -> list[str]:
    """The full names of the layers that get adapters.

    Raises:
        UserError: a target names none; the message lists what there is.
    """
    linear = [
        f"{family.blocks}.{name}"
        for name, module in model.get_submodule(family.blocks).named_modules()
        if isinstance(module, nn.Linear)
    ]
    if ALL in option.targets:
        return linear
    found: list[str] = []
    for target in option.targets:
        matching = [name for name in linear if name == target or name.endswith(f".{target}")]
        if not matching:
            known = list(dict.fromkeys(name.rsplit(".", 1)[-1] for name in linear))
            close = nearest(target, known)
            raise UserError(
                f"no linear layer is called {target}",
                where="backbone.lora.targets",
                hint=f"did you mean {close}?" if close else f"choose from: all, {', '.join(known)}",
            )
        found += matching
    return list(dict.fromkeys(found))


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """The model as a plain one, with each adapter's update added to its weight.

    Afterwards the adapters are back, and all weights are to the bit what they were. Needs memory
    for a second copy of the adapted matrices only.
    """
    adapted = {
        name: module
        for name, module in model.named_modules()
        if hasattr(module, "get_delta_weight")
    }
    for name, module in adapted.items():
        model.set_submodule(name, plain(module))
    try:
        yield
    finally:
        for name, module in adapted.items():
            model.set_submodule(name, module)


@torch.no_grad()
def plain(module: nn.Module) -> nn.Linear:
    """The linear layer that computes what an adapted one does without dropout."""
    base = module.base_layer
    assert isinstance(base, nn.Linear)
    weight = base.weight.detach().clone()
    for adapter in module.active_adapters:  # type: ignore[union-attr]
        weight += module.get_delta_weight(adapter).to(weight.dtype)  # type: ignore[operator]
    with torch.device("meta"):
        layer = nn.Linear(base.in_features, base.out_features, bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if base.bias is not None:
        layer.bias = base.bias
    return layer
