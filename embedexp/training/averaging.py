"""Averages of the weights while they train: merge=ema and merge=last_k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from embedexp.config.schema.merge import Ema, LastK, WhileTraining

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from embedexp.config import Config


def average_of(config: Config) -> WeightAverage | None:
    """The average that an experiment asks for, or None."""
    option = config.merge
    if not isinstance(option, WhileTraining):
        return None
    return WeightAverage(option, config.training.steps)


class WeightAverage:
    """A second set of weights, in float32 at least, that follows those of a module in training.

    With w(s) the weights after step s of T (w(0) before the first):

    - ema: a = w(start); then every `every` steps a = decay * a + (1 - decay) * w(s);
    - last_k: the mean of w(T), w(T - every), ..., w(T - (k - 1) * every).

    Where weights are in shards, so are their averages. What is frozen is left out. Whether there is
    an average after a step, and of how many moments, is a function of the step, so that a
    checkpoint needs the tensors alone.
    """

    def __init__(self, option: Ema | LastK, total: int) -> None:
        self.option, self.total = option, total
        self.tensors: dict[str, Tensor] = {}

    @property
    def first(self) -> int:
        """The step after which the average begins, as the weights then."""
        option = self.option
        if isinstance(option, Ema):
            return option.start
        return self.total - (option.k - 1) * option.every

    def begun(self, step: int) -> bool:
        """Whether there is an average after `step` steps."""
        return step >= self.first

    def begin(self, weights: Mapping[str, Tensor]) -> None:
        """Start from the weights."""
        self.tensors = {name: _wide(value).clone() for name, value in weights.items()}

    @torch.no_grad()
    def update(self, step: int, weights: Mapping[str, Tensor]) -> None:
        """Take in the weights after `step` steps."""
        done = step - self.first
        if done < 0 or done % self.option.every:
            return
        if done == 0:
            self.begin(weights)
            return
        if isinstance(self.option, Ema):
            share = 1.0 - self.option.decay
        else:
            share = 1.0 / (done // self.option.every + 1)
        for name, average in self.tensors.items():
            own = _local(average)
            own.add_(_local(weights[name]).to(own.dtype) - own, alpha=share)

    @torch.no_grad()
    def put_into(self, weights: Mapping[str, Tensor]) -> None:
        """Give the average to the weights themselves, in their types."""
        for name, average in self.tensors.items():
            _local(weights[name]).copy_(_local(average))


class Averaging(L.Callback):
    """Keeps the average of a module's weights at the ends of steps; goes before checkpoints."""

    def __init__(self, average: WeightAverage) -> None:
        self.average = average

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Begin with the untrained weights, if that is where the average begins."""
        if trainer.global_step == 0:
            self.average.update(0, weights_of(pl_module))

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        """Take in the weights of a step."""
        self.average.update(trainer.global_step, weights_of(pl_module))


def weights_of(module: nn.Module) -> dict[str, Tensor]:
    """What is averaged of a module, the tensors themselves: all but integers and frozen weights."""
    return {
        name: value
        for name, value in module.state_dict(keep_vars=True).items()
        if value.is_floating_point()
        and (value.requires_grad or not isinstance(value, nn.Parameter))
    }


def _wide(value: Tensor) -> Tensor:
    return value.detach() if value.dtype == torch.float64 else value.detach().float()


def _local(value: Tensor) -> Tensor:
    """This rank's part of a tensor."""
    return value.to_local() if isinstance(value, DTensor) else value.detach()
