"""Weights & Biases beside the run's own files: a view, never a reason to stop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config import Config

log = logging.getLogger(__name__)


class Tracker:
    """Sends metrics to W&B while that works; the first failure is logged and ends it."""

    def __init__(self, run: Any = None) -> None:
        self._run = run

    def __call__(self, values: dict[str, Any], step: int) -> None:
        """Log `values` under `trainer/global_step`, the axis that survives resuming."""
        self._guarded(lambda: self._run.log({**values, "trainer/global_step": step}))

    def summary(self, values: dict[str, Any]) -> None:
        """Set final values, such as evaluation scores."""
        self._guarded(lambda: self._run.summary.update(values))

    def close(self) -> None:
        """Finish writing."""
        self._guarded(lambda: self._run.finish())
        self._run = None

    def _guarded(self, action: Any) -> None:
        if self._run is None:
            return
        try:
            action()
        except Exception as error:
            log.warning("W&B failed and is off for the rest of this run: %s", error)
            self._run = None


def start(config: Config, folder: Path) -> Tracker:
    """The tracker of `config.tracking`; one that does nothing where W&B is absent or fails.

    The W&B run's id is the signature, so that a resumed run continues it.
    """
    option = config.tracking
    if option.name == "none":
        return Tracker()
    try:
        import wandb

        run = wandb.init(
            id=config.signature,
            name=config.run_name,
            project=option.project,
            entity=option.entity,
            mode=option.mode,
            dir=folder,
            config=config.to_dict(),
            resume="allow" if option.mode == "online" else None,
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )
    except ImportError:
        log.warning("W&B is not installed (pip install embedexp[wandb]); going on without it")
        return Tracker()
    except Exception as error:
        log.warning("W&B could not start; going on without it: %s", error)
        return Tracker()
    return Tracker(run)
