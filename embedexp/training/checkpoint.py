"""Checkpoints that are either whole or absent."""

from __future__ import annotations

import logging
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import lightning as L
import torch

if TYPE_CHECKING:
    from pathlib import Path

    from .interrupt import StopRequest

_NAME = re.compile(r"step-(\d{8})\.ckpt$")
log = logging.getLogger(__name__)


def step_of(path: Path) -> int:
    """The number of finished steps in a checkpoint's name."""
    match = _NAME.search(path.name)
    if match is None:
        raise ValueError(f"{path} is not a checkpoint's name")
    return int(match[1])


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints in `folder`, oldest first; half-written ones have another name."""
    return sorted(p for p in folder.glob("step-*.ckpt") if _NAME.search(p.name))


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that can be read; damaged ones are put aside with a warning."""
    for path in reversed(checkpoints(folder)):
        try:
            torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            log.warning("ignoring the damaged checkpoint %s (%s)", path, type(error).__name__)
            # Under its own name it would count among the newest to be kept, before whole ones.
            path.rename(path.with_name(f"damaged-{path.name}"))
        else:
            return path
    return None


def save(trainer: L.Trainer, folder: Path, keep: int) -> Path:
    """Write the trainer's state under its step's name, then forget all but the newest `keep`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{trainer.global_step:08d}.ckpt"
    partial = folder / f".partial-{path.name}"
    trainer.save_checkpoint(partial)
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    for old in checkpoints(folder)[:-keep]:
        old.unlink()
    for leftover in folder.glob(".partial-*"):
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    return path


class Checkpointing(L.Callback):
    """Saves every so many steps, at the end, and when a stop is asked for; then stops."""

    def __init__(self, folder: Path, every: int, keep: int, stop: StopRequest) -> None:
        self.folder, self.every, self.keep, self.stop = folder, every, keep, stop

    def on_train_start(self, *_: Any) -> None:
        """Take SIGTERM back from Lightning, whose handler would leave without saving."""
        self.stop.take_signals()

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save at a step boundary, where weights, optimizer and data position agree."""
        step = trainer.global_step
        due = step % self.every == 0 or step == trainer.max_steps
        if due or self.stop.requested:
            save(trainer, self.folder, self.keep)
        if self.stop.requested:
            trainer.should_stop = True
