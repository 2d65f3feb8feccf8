"""Hydra's way to `embedexp.launch.local`: each cell of a multirun in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra.plugins.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


class LocalLauncher(Launcher):
    """Runs cells in local processes, `processes` of them at a time."""

    def __init__(self, processes: int, snapshot: bool) -> None:
        self.processes, self.snapshot = processes, snapshot

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep Hydra's own config, which knows the folders that options come from."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all cells; a failed one returns its failure and never stops the others.

        Raises:
            UserError: a cell is wrong; nothing was started.
        """
        from embedexp.launch.local import launch
        from embedexp.launch.outcome import returned
        from embedexp.launch.plan import option_folders

        config_dirs = option_folders(self.config.hydra)
        outcomes = launch(
            job_overrides, config_dirs, processes=self.processes, snapshot=self.snapshot
        )
        return returned(job_overrides, outcomes)
