"""The routers of models that were trained with experts, seen through the same records as ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from embedexp.backbone.families import family_of
from embedexp.routing.context import RoutingContext
from embedexp.routing.output import Decision
from embedexp.routing.upcycling import RoutedExperts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transformers import PreTrainedModel


def native_routers(module: nn.Module) -> Iterator[nn.Module]:
    """Transformers' own routers in a module, in the order of layers: gates that have experts."""
    for child in module.modules():
        gate = getattr(child, "gate", None)
        if isinstance(gate, nn.Module) and hasattr(child, "experts"):
            yield gate


def watch(model: PreTrainedModel) -> None:
    """Have the model's native routers record each forward pass, as our own experts do."""
    blocks: Any = model.get_submodule(family_of({"model_type": model.config.model_type}).blocks)
    context = RoutingContext()
    for layer, block in enumerate(blocks):
        routers = list(native_routers(block))
        for router in routers:
            router.register_forward_hook(Recorder(context, layer, model.config.num_experts_per_tok))
        if routers:
            context.watch(block)


@dataclass(frozen=True)
class Recorder:
    """A hook that keeps what a router of a layer decided.

    Not a function: a copy of the model has a copy of the context, which a closure would not follow.
    transformers' routers return logits `[t, E]`, alone or with weights and choices `[t, k]`.
    """

    context: RoutingContext
    layer: int
    experts_per_token: int

    def __call__(self, router: nn.Module, arguments: Any, output: Any) -> None:
        """Keep a router's output, inside a pass."""
        if self.context.current is None:
            return
        logits, *chosen = output if isinstance(output, tuple) else (output,)
        logits = logits.reshape(-1, logits.shape[-1]).float()
        assignments = chosen[1] if chosen else logits.topk(self.experts_per_token).indices
        load = assignments.flatten().bincount(minlength=logits.shape[-1])
        decision = Decision(logits, logits.softmax(-1), assignments, load)
        self.context.current.record(self.layer, decision)


def expert_counts(model: nn.Module) -> list[int]:
    """Experts of each layer that has a router over tokens, native or ours, in order."""
    own = [len(m.experts) for m in model.modules() if isinstance(m, RoutedExperts)]
    weights: list[Any] = [router.weight for router in native_routers(model)]
    return own or [int(weight.shape[0]) for weight in weights]
