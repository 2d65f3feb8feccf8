"""Routing: dense models, token-routed experts and task-routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.options import implementation

from .balance import load_balancing_loss
from .context import RoutingContext, RoutingPass
from .counting import parameter_counts
from .output import RouterOutput

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Routing

__all__ = [
    "RouterOutput",
    "RoutingContext",
    "RoutingPass",
    "apply",
    "auxiliary",
    "experts_by_task",
    "load_balancing_loss",
    "parameter_counts",
]


def apply(
    option: Routing, model: PreTrainedModel, *, generator: torch.Generator | None = None
) -> PreTrainedModel:
    """Route a model in place, and return it; `generator` draws the routers' weights.

    Works on `device="meta"` too. Dense models stay as they are, task experts compute exactly
    what the dense model did, and so do token-routed ones with `renormalize=topk`, up to rounding.

    Raises:
        UserError: the option does not fit the model.
    """
    implementation("routing", option.name).apply(option, model, RoutingContext(), generator)
    return model


def experts_by_task(option: Routing) -> list[int] | None:
    """The task expert of each instruction task, by task id, -1 for tasks without one.

    None where tasks play no role.

    Raises:
        UserError: the mapping from tasks to experts has gaps.
    """
    experts: list[int] | None = implementation("routing", option.name).experts_by_task(option)
    return experts


def auxiliary(option: Routing, router: RouterOutput | None) -> Tensor | None:
    """The weighted balance loss that routing adds to a step's loss; None if it adds none."""
    if option.name != "moe" or router is None or option.balance_coefficient == 0:
        return None
    loss = load_balancing_loss(
        router.probabilities, router.assignments, normalization=option.balance_normalization
    )
    return option.balance_coefficient * loss
