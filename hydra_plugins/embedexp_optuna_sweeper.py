"""Hydra's way to `embedexp.sweeps.search`: Optuna chooses the cells of a multirun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydra.plugins.sweeper import Sweeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig


class OptunaSweeper(Sweeper):
    """Searches the space of the swept values; its parameters are `search.settings` and these two.

    Args:
        when: Conditions under which a key is searched: key -> {other key: value or list}.
        params: Sweeps and overrides that are always there.
        settings: All others.
    """

    def __init__(
        self,
        when: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self.when, self.params, self.settings = when, params or {}, settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Keep Hydra's own config, which knows the launcher and the folders of options."""
        self.hydra_context, self.config = hydra_context, config

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Search what `arguments` sweep over; the trials that failed are part of the answer.

        Raises:
            UserError: the space or a setting is wrong.
            CellFailedError: the search ended before enough trials were complete.
        """
        from omegaconf import OmegaConf

        from embedexp.launch.outcome import CellFailedError
        from embedexp.launch.plan import option_folders
        from embedexp.sweeps.search.grammar import from_overrides
        from embedexp.sweeps.search.run import launcher_of, run
        from embedexp.sweeps.search.settings import settings_of

        # Hydra calls setup first.
        assert self.config is not None
        hydra = self.config.hydra
        given: Any = OmegaConf.to_container(
            OmegaConf.create({"settings": self.settings, "when": self.when}), resolve=True
        )
        settings = settings_of(given["settings"])
        config_dirs = option_folders(hydra)
        typed = {text.lstrip("+~").partition("=")[0] for text in arguments}
        always = [f"{key}={value}" for key, value in self.params.items() if key not in typed]
        fixed, space = from_overrides([*always, *arguments], config_dirs, given["when"])
        launcher = launcher_of(
            OmegaConf.to_container(hydra.launcher, resolve=True),
            [str(text) for text in hydra.overrides.hydra],
        )
        found = run(fixed, space, settings, launcher, config_dirs)
        if found.problem is not None:
            raise CellFailedError(found.problem)
        return []
