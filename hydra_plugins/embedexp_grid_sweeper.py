"""Hydra's way to a grid of cells: all go to the launcher at once, whatever becomes of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


class GridSweeper(Sweeper):
    """The product of all swept values, in the order of Hydra's basic sweeper.

    Unlike that one it leaves validation to the launcher, which tells the errors of all cells
    together, writes no file, and does not raise when a cell has failed.
    """

    def __init__(self, params: Mapping[str, str] | None = None) -> None:
        self.params = params or {}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Make the launcher that the config names."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Launch the cells of `arguments`; overrides there win over the config's `params`."""
        from embedexp.config import expand
        from embedexp.launch.plan import option_folders

        # Hydra calls setup first.
        assert self.launcher is not None
        assert self.config is not None
        config_dirs = option_folders(self.config.hydra)
        params = [f"{key}={value}" for key, value in self.params.items()]
        return self.launcher.launch(expand([*params, *arguments], config_dirs), initial_job_idx=0)
