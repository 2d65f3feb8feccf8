"""How ranks meet: sums over them, and the one place where gradients are averaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def sum_over_ranks(values: Tensor, world: int) -> Tensor:
    """The sum of `values` over `world` ranks, the same on each; `values` where there is one."""
    if world == 1:
        return values
    total = values.clone()
    distributed.all_reduce(total)
    return total


def backward(
    model: nn.Module,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None = None,
    *,
    last: bool,
) -> None:
    """Backward from `tensors`; the ranks' gradients are averaged when `last`, else only summed up.

    `model` may be a plain module, one in DDP, or one with modules sharded by FSDP2. Autocast is
    off: a backward pass has the types of its forward pass.
    """
    if isinstance(model, DistributedDataParallel) and last:
        # DDP does this in its forward, which is not where a step's last forward ends.
        model.reducer._rebuild_buckets()
        model.reducer.prepare_for_backward([])
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_requires_gradient_sync(last, recurse=False)
    with torch.autocast(tensors[0].device.type, enabled=False):
        torch.autograd.backward(tensors, gradients)


def touched(model: nn.Module, parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Zeros that make the last backward meet parameters which it would not reach.

    DDP waits for all parameters in that pass; the gradients that they already have stay.
    """
    if not isinstance(model, DistributedDataParallel):
        return []
    return [parameter.sum() * 0 for parameter in parameters if parameter.requires_grad]


def complete(parameters: Iterable[nn.Parameter]) -> None:
    """Give trained parameters without a gradient one of zeros, as DDP does.

    An optimizer would otherwise treat them otherwise than with several ranks.
    """
    for parameter in parameters:
        if parameter.requires_grad and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
