"""Weights & Biases beside the run's own files: a view, never a reason to stop."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedexp.config import Config

log = logging.getLogger(__name__)

MARKED = ("stage", "backbone", "routing", "mask_schedule", "loss", "batching", "negatives", "data")
"""Groups whose options are tags of a run."""

LONGEST_TAG = 64  # characters, as W&B has it
SWEEP_ID = "WANDB_SWEEP_ID"
"""The variable in which W&B's agent names its sweep."""


class Tracker:
    """Sends metrics to W&B while that works; the first failure is said and ends it.

    `logger` is a Lightning `WandbLogger`, or None to send nothing.
    """

    def __init__(self, logger: Any = None) -> None:
        self._logger = logger

    def __call__(self, values: dict[str, Any], step: int) -> None:
        """Log `values` under `trainer/global_step`, the axis that survives resuming."""
        self._guarded(lambda: self._logger.log_metrics(values, step))

    def summary(self, values: dict[str, Any]) -> None:
        """Set final values, such as evaluation scores."""
        self._guarded(lambda: self._logger.experiment.summary.update(values))

    def close(self) -> None:
        """Finish writing."""
        self._guarded(lambda: self._logger.experiment.finish())
        self._logger = None

    def _guarded(self, action: Callable[[], Any]) -> None:
        if self._logger is None:
            return
        try:
            action()
        except Exception as error:
            log.warning("W&B failed and is off for the rest of this run: %s", error)
            self._logger = None


def import_early(config: Config) -> None:
    """Import what W&B imports whenever a run of it starts.

    It builds classes that look up their own sources among all modules: beside the thousands of
    torch and transformers that takes seconds, before them a part of one.
    """
    if config.tracking.name == "wandb":
        with suppress(Exception):  # `start` will meet it again, and say it
            import_module("wandb.sdk.launch.inputs.internal")


def start(config: Config, folder: Path) -> Tracker:
    """The tracker of `config.tracking`; one that does nothing where W&B is absent or fails.

    The W&B run's id is the signature, so that a resumed run continues it. For rank 0 only.
    """
    option = config.tracking
    if option.name == "none":
        return Tracker()
    try:
        import wandb
        from lightning.pytorch.loggers import WandbLogger

        place = identity(config)
        logger = WandbLogger(
            name=config.run_name,
            tags=tags(config),
            # Not `offline=True`, which would turn off every other W&B run of this process.
            **place,
            save_dir=folder,
            config=config.to_dict(),
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        # Lightning still gives it, and W&B says on the screen that it has no effect.
        given = getattr(logger, "_wandb_init", {})
        given.pop("anonymous", None)
        for key in ("id", "project", "entity"):
            if place.get(key) is None:  # Lightning's own in the place of none
                given.pop(key, None)
        _ = logger.experiment  # starts it
    except ImportError:
        log.warning("W&B is not installed (pip install embedexp[wandb]); going on without it")
        return Tracker()
    except Exception as error:
        log.warning("W&B could not start; going on without it: %s", error)
        return Tracker()
    return Tracker(logger)


def identity(config: Config) -> dict[str, Any]:
    """Which run of W&B this is, where, and whether it is online.

    Below the agent of a W&B sweep, W&B itself says which run of which project it is, and the sweep
    can only hear of it online, unless WANDB_MODE says otherwise; its group is the sweep.
    """
    option = config.tracking
    assert option.name == "wandb"
    sweep = os.environ.get(SWEEP_ID)
    if sweep:
        mode = os.environ.get("WANDB_MODE") or "online"
        return {"mode": mode, "group": option.group or sweep}
    return {
        "id": config.signature,
        "project": option.project,
        "entity": option.entity,
        "group": option.group,
        "mode": option.mode,
    }


def of_sweep() -> bool:
    """Whether the agent of a W&B sweep has started this process."""
    return bool(os.environ.get(SWEEP_ID))


def tags(config: Config) -> list[str]:
    """The options that a run is composed of, to filter by: `loss=infonce`."""
    used = [group for group in MARKED if group in config.stage.uses]
    return [f"{group}={getattr(config, group).name}"[:LONGEST_TAG] for group in used]
