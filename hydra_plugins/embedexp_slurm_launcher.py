"""Hydra's way to `embedexp.launch.slurm`: the cells of a multirun as jobs of a SLURM cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydra.plugins.launcher import Launcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

_PREFIX = "hydra.launcher."


class SlurmLauncher(Launcher):
    """Submits cells in arrays; what its parameters may be says `launch.slurm_settings`."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep Hydra's own config, which knows the folders that options come from."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Submit all cells; one that fails never stops the others.

        Raises:
            UserError: a cell or a setting is wrong; nothing was submitted.
        """
        from omegaconf import OmegaConf

        from embedexp.launch.outcome import returned
        from embedexp.launch.plan import option_folders
        from embedexp.launch.slurm import launch

        hydra = self.config.hydra
        typed = {
            text.lstrip("+").partition("=")[0].removeprefix(_PREFIX).partition(".")[0]
            for text in map(str, hydra.overrides.hydra)
            if text.lstrip("+").startswith(_PREFIX)
        }
        settings = OmegaConf.to_container(OmegaConf.create(self.settings), resolve=True)
        assert isinstance(settings, dict)
        given = {str(key): value for key, value in settings.items()}
        outcomes = launch(job_overrides, option_folders(hydra), settings=given, typed=typed)
        return returned(job_overrides, outcomes)
