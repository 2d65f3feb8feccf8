"""Weights & Biases beside the run's own files: a view, never a reason to stop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedexp.config import Config

log = logging.getLogger(__name__)

MARKED = ("stage", "backbone", "routing", "mask_schedule", "loss", "batching", "negatives", "data")
"""Groups whose options are tags of a run."""

LONGEST_TAG = 64  # characters, as W&B has it


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

        logger = WandbLogger(
            id=config.signature,
            name=config.run_name,
            project=option.project,
            entity=option.entity,
            group=option.group,
            tags=tags(config),
            # Not `offline=True`, which would turn off every other W&B run of this process.
            mode=option.mode,
            save_dir=folder,
            config=config.to_dict(),
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
        # Lightning still gives it, and W&B says on the screen that it has no effect.
        getattr(logger, "_wandb_init", {}).pop("anonymous", None)
        _ = logger.experiment  # starts it
    except ImportError:
        log.warning("W&B is not installed (pip install embedexp[wandb]); going on without it")
        return Tracker()
    except Exception as error:
        log.warning("W&B could not start; going on without it: %s", error)
        return Tracker()
    return Tracker(logger)


def tags(config: Config) -> list[str]:
    """The options that a run is composed of, to filter by: `loss=infonce`."""
    used = [group for group in MARKED if group in config.stage.uses]
    return [f"{group}={getattr(config, group).name}"[:LONGEST_TAG] for group in used]
