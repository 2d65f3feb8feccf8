"""Sparse upcycling: from a dense MLP to copies of it and a router (arXiv 2212.05055)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from embedexp.config.schema.routing import Router


def copies(dense: nn.Module, count: int) -> nn.ModuleList:
    """`count` independent exact copies of a module, itself the first."""
    return nn.ModuleList([dense, *(copy.deepcopy(dense) for _ in range(count - 1))])


def drop_biases(module: nn.Module) -> None:
    """Take the biases of all linear layers out of a module, in place."""
    for linear in module.modules():
        if isinstance(linear, nn.Linear):
            linear.register_parameter("bias", None)


class RoutedExperts(nn.Module):
    """A router and its experts, before it is said who chooses whom.

    With `biases=shared_output` the dense module's biases are gone, and `bias [d]`, zero at first,
    is added once to each row's mixture, unweighted (the layout of Nomic Embed v2).
    """

    def __init__(
        self, dense: nn.Module, width: int, option: Router, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        like = next(dense.parameters())
        self.router = nn.Linear(
            width, option.num_experts, bias=False, device=like.device, dtype=like.dtype
        )
        if like.device.type != "meta":
            initialise(self.router.weight, option, generator)
        shared = option.biases == "shared_output"
        if shared:
            drop_biases(dense)
        self.experts = copies(dense, option.num_experts)
        self.bias = (
            nn.Parameter(torch.zeros(width, device=like.device, dtype=like.dtype))
            if shared
            else None
        )

    @property
    def expert_parameters(self) -> int:
        """Parameters of one expert."""
        return sum(p.numel() for p in self.experts[0].parameters())


def initialise(weight: Tensor, option: Router, generator: torch.Generator | None) -> None:
    """Draw a router's weights, with mean 0 and standard deviation `router_std`."""
    if option.router_init == "normal":
        nn.init.normal_(weight, std=option.router_std, generator=generator)
    else:
        bound = 3**0.5 * option.router_std
        nn.init.uniform_(weight, -bound, bound, generator=generator)
