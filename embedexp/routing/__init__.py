"""Routing: dense models, token-routed experts and task-routed experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedexp.config.options import implementation

from .balance import balance, load_balancing_loss, z_loss
from .context import RoutingContext, RoutingPass
from .counting import parameter_counts
from .output import RouterOutput
from .statistics import router_statistics
from .totals import RouterTotals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from embedexp.config.schema.routing import Routing

__all__ = [
    "RouterOutput",
    "RouterTotals",
    "RoutingContext",
    "RoutingPass",
    "apply",
    "auxiliary",
    "auxiliary_terms",
    "auxiliary_values",
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


def auxiliary_terms(
    option: Routing, router: RouterOutput | None, totals: RouterTotals | None = None
) -> dict[str, Tensor]:
    """The weighted losses that routing adds to a step's loss, by name: `balance`, `z`.

    With the `totals` of a step, the part of them that the rows of `router` contribute: the sum
    over the step's forward passes, of all ranks, is the loss of all rows at once. Without, those
    rows are all. A loss whose coefficient is 0 is left out, and so is all where there is no router.
    """
    if router is None:
        return {}
    if totals is None:
        totals = RouterTotals.of(router)
    means = [p.sum(0) / totals.rows for p in router.probabilities]
    z = [logits.logsumexp(-1).square().sum() / totals.rows for logits in router.logits]
    return _weighted(option, means, list(totals.loads), z)


def auxiliary_values(option: Routing, totals: RouterTotals | None) -> dict[str, Tensor]:
    """What the `auxiliary_terms` of a step sum up to, without their graph."""
    if totals is None:
        return {}
    means = list(totals.probabilities / totals.rows)
    terms = _weighted(option, means, list(totals.loads), list(totals.z / totals.rows))
    return {name: term.float() for name, term in terms.items()}


def _weighted(
    option: Routing, means: list[Tensor], loads: list[Tensor], z: list[Tensor]
) -> dict[str, Tensor]:
    """The losses from mean probabilities and loads `[E]`, and mean squares, layer by layer."""
    terms: dict[str, Tensor] = {}
    values = option.model_dump()
    if coefficient := values.get("balance_coefficient"):
        normalization = values["balance_normalization"]
        terms["balance"] = coefficient * balance(means, loads, normalization=normalization)
    if coefficient := values.get("z_loss_coefficient"):
        terms["z"] = coefficient * torch.stack(z).mean()
    return terms


def auxiliary(option: Routing, router: RouterOutput | None) -> Tensor | None:
    """The sum of `auxiliary_terms`; None if routing adds nothing to the loss."""
    terms = list(auxiliary_terms(option, router).values())
    return sum(terms[1:], terms[0]) if terms else None


def rebalance(option: Routing, model: nn.Module, loads: Sequence[Tensor]) -> None:
    """What routing does once per optimizer step with all ranks' load, `[E]` counts per layer.

    Only `loss_free` does something: it moves the biases on its routers' selection.
    """
    if option.name == "loss_free":
        implementation("routing", option.name).rebalance(option, model, loads)
