"""Routing: dense models, token-routed experts and task-routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.options import implementation

from .balance import load_balancing_loss, z_loss
from .context import RoutingContext, RoutingPass
from .counting import parameter_counts
from .output import RouterOutput
from .statistics import router_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Routing

__all__ = [
    "RouterOutput",
    "RoutingContext",
    "RoutingPass",
    "apply",
    "auxiliary",
    "auxiliary_terms",
    "experts_by_task",
    "load_balancing_loss",
    "parameter_counts",
    "rebalance",
    "router_statistics",
    "z_loss",
]


def apply(
    option: Routing, model: PreTrainedModel, *, generator: torch.Generator | None = None
) -> PreTrainedModel:
    """Route a model in place, and return it; `generator` draws the routers' weights.

    Works on `device="meta"` too. Dense models stay as they are, task experts compute exactly
    what the dense model did, and so do tokens' experts with biases per expert and `renormalize`
    topk or function_preserving, up to rounding.

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


def auxiliary_terms(option: Routing, router: RouterOutput | None) -> dict[str, Tensor]:
    """The weighted losses that routing adds to a step's loss, by name: `balance`, `z`.

    A loss whose coefficient is 0 is left out, and so is all where there is no router.
    """
    terms: dict[str, Tensor] = {}
    if router is None:
        return terms
    values = option.model_dump()
    if balance := values.get("balance_coefficient"):
        terms["balance"] = balance * load_balancing_loss(
            router.probabilities,
            router.assignments,
            normalization=values["balance_normalization"],
        )
    if z := values.get("z_loss_coefficient"):
        terms["z"] = z * z_loss(router.logits)
    return terms


def auxiliary(option: Routing, router: RouterOutput | None) -> Tensor | None:
    """The sum of `auxiliary_terms`; None if routing adds nothing to the loss."""
    terms = list(auxiliary_terms(option, router).values())
    return sum(terms[1:], terms[0]) if terms else None


def rebalance(option: Routing, model: nn.Module, loads: Sequence[Tensor]) -> None:
    """What routing does once per optimizer step with the step's load, `[E]` counts per layer.

    Only `loss_free` does something: it moves the biases on its routers' selection.
    """
    if option.name == "loss_free":
        implementation("routing", option.name).rebalance(option, model, loads)
