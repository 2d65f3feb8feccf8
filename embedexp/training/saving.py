"""The state of training in checkpoints that any number of processes can write and read."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from embedexp.config.errors import UserError

from . import checkpoint
from .averaging import weights_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import nn

    from .averaging import WeightAverage
    from .interrupt import StopRequest
    from .world import World

_EXTRA = "extra.pt"
"""What is the same on all ranks: schedule, routers' load, the state of dynamic negatives."""

# What torch raises when a rank could not read its part is no Exception.
_ERRORS = (Exception, CheckpointException)
log = logging.getLogger(__name__)


class Checkpointing(L.Callback):
    """Goes on from the newest checkpoint; saves every so many steps, at the end, and at a stop.

    Weights and optimizer are saved in shards, each rank its own, under names of parameters: another
    number of ranks, or another strategy, can go on from them.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        keep: int,
        best: int,
        stop: StopRequest,
        world: World,
    ) -> None:
        self.folder, self.every, self.keep, self.best = folder, every, keep, best
        self.stop, self.world = stop, world
        self.losses: list[torch.Tensor] = []  # of the steps since the last checkpoint

    def on_fit_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Restore the newest checkpoint that can be read, if there is any."""
        restore(trainer, pl_module, self.folder, self.world)

    def on_train_start(self, *_: Any) -> None:
        """Take SIGTERM back from Lightning, whose handler would leave without saving."""
        self.stop.take_signals()

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: L.LightningModule, *_: Any) -> None:
        """Save at a step boundary, where weights, optimizer and data position agree."""
        step = trainer.global_step
        self.losses.append(pl_module.latest["loss"].detach())  # type: ignore[index]
        stopping = self.world.any(self.stop.requested)
        if step % self.every == 0 or step == trainer.max_steps or stopping:
            loss = float(torch.stack(self.losses).mean())
            self.losses.clear()
            save(trainer, pl_module, self.folder, self.world, loss=loss)
            if self.world.first:
                checkpoint.prune(self.folder, self.keep, self.best)
        if stopping:
            self.stop.ask("another rank")
            trainer.should_stop = True


def save(
    trainer: L.Trainer,
    module: L.LightningModule,
    folder: Path,
    world: World,
    *,
    loss: float | None = None,
) -> None:
    """Write the trainer's state under its step's name; all ranks call this together."""
    step = trainer.global_step
    state = _state(module, trainer.optimizers[0], step)
    if not world.first:
        world.wait()
        _save_shards(state, checkpoint.partial_path(folder, step), world)
        return
    with checkpoint.writing(folder, step, loss=loss) as partial:
        extra: dict[str, Any] = {"schedule": _schedule(trainer).state_dict()}
        module.on_save_checkpoint(extra)
        torch.save(extra, partial / _EXTRA)
        world.wait()
        _save_shards(state, partial, world)


def restore(trainer: L.Trainer, module: L.LightningModule, folder: Path, world: World) -> int:
    """Go on from the newest checkpoint that can be read; returns its step, 0 without any.

    Raises:
        UserError: there are checkpoints, and none of them can be read.
    """
    touched = False
    while True:
        newest = world.tell(checkpoint.latest(folder) if world.first else None)
        if newest is None:
            if touched:  # reading may have overwritten some of the weights to start from
                raise UserError(
                    f"no checkpoint in {folder} can be read; they are put aside there",
                    hint="the same command starts from the beginning",
                )
            return 0
        problem = None
        try:
            _restore(trainer, module, newest, world)
        except _ERRORS as error:
            problem = _reason(error)
        if not world.any(problem is not None):
            log.info("resumed from %s", newest)
            return checkpoint.step_of(newest)
        touched = True
        if world.first:
            checkpoint.put_aside(newest, problem or "another rank cannot read it")


def load_weights(objective: nn.Module, path: Path, average: WeightAverage | None = None) -> None:
    """Put a checkpoint's weights into an objective of one process; of `average`, if it has begun.

    Raises:
        UserError: the checkpoint is of another model, or damaged.
    """
    state = {f"objective.{name}": value for name, value in objective.state_dict().items()}
    try:
        with _quietly():
            load_shards({"model": state}, checkpoint_id=path, no_dist=True)
            if average is not None and average.begun(checkpoint.step_of(path)):
                weights = {f"objective.{k}": v for k, v in weights_of(objective).items()}
                average.begin(weights)
                load_shards({"average": average.tensors}, checkpoint_id=path, no_dist=True)
                average.put_into(weights)
    except _ERRORS as error:
        raise UserError(
            f"{path} can't be read: {_reason(error)}",
            hint="choose another step, or another run",
        ) from error


def _state(
    module: L.LightningModule,
    optimizer: torch.optim.Optimizer,
    step: int,
    *,
    allocate: bool = False,
) -> dict[str, Any]:
    """What all ranks save together; `allocate` makes the average's tensors, to be read into."""
    state: dict[str, Any] = {
        "model": get_model_state_dict(module),
        "optimizer": get_optimizer_state_dict(module, optimizer),
    }
    average: WeightAverage | None = getattr(module, "average", None)
    if average is not None and average.begun(step):
        if allocate:
            average.begin(weights_of(module))
        state["average"] = average.tensors
    return state


def _save_shards(state: dict[str, Any], path: Path, world: World) -> None:
    with _quietly():
        save_shards(
            state, checkpoint_id=path, process_group=world.patient, no_dist=world.patient is None
        )


def _restore(trainer: L.Trainer, module: L.LightningModule, path: Path, world: World) -> None:
    optimizer = trainer.optimizers[0]
    state = _state(module, optimizer, checkpoint.step_of(path), allocate=True)
    with _quietly():
        load_shards(
            state, checkpoint_id=path, process_group=world.patient, no_dist=world.patient is None
        )
    extra = torch.load(path / _EXTRA, map_location="cpu", weights_only=True)
    # Frozen weights come from the checkpoint too; every name must be there.
    set_model_state_dict(module, state["model"], options=StateDictOptions(strict=True))
    set_optimizer_state_dict(module, optimizer, state["optimizer"])
    _schedule(trainer).load_state_dict(extra["schedule"])
    module.on_load_checkpoint(extra)
    progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress.total
    progress.ready = progress.completed = checkpoint.step_of(path)


def _reason(error: BaseException) -> str:
    """The first cause, in one line."""
    if isinstance(error, CheckpointException):
        error = next(iter(error.failures.values()))[0]
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _schedule(trainer: L.Trainer) -> Any:
    return trainer.lr_scheduler_configs[0].scheduler


@contextmanager
def _quietly() -> Iterator[None]:
    """Without torch's advice on checkpoints of one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch.distributed.*")
        yield
