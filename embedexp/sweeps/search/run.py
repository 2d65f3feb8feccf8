"""A whole search: checked, led, and summed up at its end."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from embedexp.config.errors import UserError
from embedexp.launch.interrupts import sigterm_as_interrupt
from embedexp.runs.trial import Trial

from . import plots
from .checks import probe, require_comparable, require_prunable
from .loop import OVERRIDES, Search
from .objective import Named
from .runs import LocalPlaces, Places, Runs, SlurmPlaces, last_of_each
from .samplers import advice
from .screen import Screen, complete, shown_values
from .settings import REDUCTION
from .study import FOLDER, led, open_study, question, storage_of, study_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna import Study
    from optuna.trial import FrozenTrial

    from embedexp.config import Config

    from .settings import SearchSettings
    from .space import Space

SLURM_TRIALS = 8
"""Trials at a time on a cluster, where nothing says how many."""
_SHOWN = 10


@dataclass(frozen=True)
class Launcher:
    """Who starts runs: the launcher's name, its settings, and those of them that were typed."""

    name: Literal["local", "slurm"]
    settings: Mapping[str, Any]
    typed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """What a search has come to: its study, its folder, and why it ended early, if it did."""

    study: Study
    folder: Path
    problem: str | None

    @property
    def best(self) -> list[FrozenTrial]:
        """The best trial; with several objectives, all that no other beats in each of them."""
        return list(self.study.best_trials)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are complete, pruned, failed, running; those of which there are any."""
        names = (trial.state.name.lower() for trial in self.study.get_trials(deepcopy=False))
        return dict(Counter("failed" if name == "fail" else name for name in names))

    @property
    def ranked(self) -> list[FrozenTrial]:
        """Complete trials, the best first; with several objectives as they came."""
        from optuna.trial import TrialState

        ended = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(self.study.directions) > 1:
            return ended
        sign = -1 if self.study.direction.name == "MAXIMIZE" else 1
        return sorted(ended, key=lambda trial: (sign * trial.values[0], trial.number))


def run(
    fixed: Sequence[str],
    space: Space,
    settings: SearchSettings,
    launcher: Launcher,
    config_dirs: Sequence[str | Path] = (),
    *,
    source: str = "",
) -> Found:
    """Search `space` until `settings.trials` trials are complete; those from before count.

    Args:
        fixed: Overrides of all trials.
        space: What is searched.
        settings: How, and for how long.
        launcher: Who starts the runs.
        config_dirs: Further folders with options.
        source: The file that defines the search, if there is one.

    Raises:
        UserError: no trial could be valid, a setting is wrong, or another process leads the search.
        KeyboardInterrupt: interrupted; the same search goes on from there.
    """
    objectives = [Named(name, direction) for name, direction in settings.objectives]
    require_comparable(settings, space)
    example = probe(fixed, space, settings, config_dirs)
    require_prunable(settings, space, example)
    asked, folder = _asked(fixed, space, settings, example)
    name, runs_folder = folder.name, folder.parents[1]
    names = [objective.name for objective in objectives]
    places = _places(launcher, settings, name)
    with led(folder):
        storage = storage_of(settings, folder)
        study = open_study(name, storage, asked, [one.direction for one in objectives])
        runner = Runs(
            fixed,
            config_dirs,
            name,
            objectives,
            settings.seeds,
            places,
            (launcher.name, launcher.settings),
            _trials(settings, storage, name),
            source,
        )
        with Screen(study, names, runs_folder, settings.trials) as screen, sigterm_as_interrupt():
            for sentence in advice(settings, space):
                screen.note(f"note: {sentence}")
            screen.note(
                f"search {name}: {complete(study)} of {settings.trials} trials complete, "
                f"{settings.sampler}, {places.parallel} at a time"
            )
            try:
                problem = Search(study, space, settings, runner, screen).run()
            except KeyboardInterrupt:
                screen.note("stopped; the same command goes on from here")
                raise
        ended = Found(study, folder, problem)
        _tell(ended, fixed, names, screen)
    return ended


def as_it_stands(
    fixed: Sequence[str],
    space: Space,
    settings: SearchSettings,
    config_dirs: Sequence[str | Path] = (),
) -> Found:
    """How the search stands that `run` would go on with; arguments as there.

    Raises:
        UserError: it has never been started, or its storage can't be opened.
    """
    example = probe(fixed, space, settings, config_dirs)
    asked, folder = _asked(fixed, space, settings, example)
    if not folder.is_dir():
        raise UserError(
            "this search has not been started with these overrides",
            where=f"looked for {folder}",
            hint="carry it out: python -m embedexp sweep FILE",
        )
    directions = [direction for _, direction in settings.objectives]
    study = open_study(folder.name, storage_of(settings, folder), asked, directions)
    return Found(study, folder, None)


def _asked(
    fixed: Sequence[str], space: Space, settings: SearchSettings, example: Config
) -> tuple[dict[str, Any], Path]:
    """What the search asks, and the folder that is named after it."""
    asked = question(settings, space, fixed)
    name = settings.study or study_name(example.name, asked)
    return asked, Path(example.paths.runs) / FOLDER / name


def launcher_of(node: Any, overrides: Sequence[str]) -> Launcher:
    """The launcher of Hydra's config: its node, and the overrides of Hydra's keys as typed.

    Raises:
        UserError: it is one from elsewhere, which cannot run trials one by one.
    """
    settings = {str(key): value for key, value in dict(node).items() if key != "_target_"}
    target = str(node["_target_"])
    if target.endswith(".LocalLauncher"):
        return Launcher("local", settings)
    if not target.endswith(".SlurmLauncher"):
        raise UserError(
            f"a search can't use the launcher {target}", hint="hydra/launcher=local or slurm"
        )
    prefix = "hydra.launcher."
    keys = (text.lstrip("+").partition("=")[0] for text in overrides)
    typed = {key.removeprefix(prefix).partition(".")[0] for key in keys if key.startswith(prefix)}
    return Launcher("slurm", settings, tuple(sorted(typed)))


def _places(launcher: Launcher, settings: SearchSettings, study: str) -> Places:
    if launcher.name == "slurm":
        parallel = settings.parallel or launcher.settings.get("parallelism") or SLURM_TRIALS
        return SlurmPlaces(parallel, study, launcher.settings, launcher.typed)
    processes = launcher.settings["processes"]
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise UserError(
            f"hydra.launcher.processes={processes}, but it takes a whole number, 1 or more",
            hint="trials that run at the same time: hydra.sweeper.parallel=2",
        )
    return LocalPlaces(settings.parallel or processes, study, launcher.settings)


def _trials(settings: SearchSettings, storage: str, study: str) -> Any:
    """What runs are told, so that they can be pruned; None where nothing prunes."""
    pruner = settings.pruner
    if pruner is None:
        return None
    (objective,) = settings.objectives

    def trial(number: int, config: Config) -> Trial:
        every = settings.prune_every or max(1, config.training.steps // 10)
        return Trial(
            storage,
            study,
            number,
            pruner,
            settings.prune_by or "score",
            every,
            settings.reduction or REDUCTION,
            objective[0],
            objective[1] == "maximize",
        )

    return trial


def _tell(found: Found, fixed: Sequence[str], names: Sequence[str], screen: Screen) -> None:
    """Print the best trials, the command of the best, and where the pictures are."""
    study, ended, best = found.study, found.ranked, found.best
    told = ", ".join(f"{count} {state}" for state, count in found.counts.items())
    screen.note()
    screen.note(f"{sum(found.counts.values())} trials: {told}")
    shown = ended[:_SHOWN] if len(names) == 1 else best
    for trial in shown:
        told = " ".join(trial.user_attrs.get(OVERRIDES, []))
        screen.note(f"  {shown_values(names, trial.values)}  trial {trial.number:<4} {told}")
    if found.problem is not None:
        screen.note(f"ended early: {found.problem}")
    if best and ended:
        screen.note()
        first = best[0] if len(names) > 1 else ended[0]
        screen.note(f"best     {command(fixed, first)}")
    pictures = plots.draw(study, names, found.folder) if ended else []
    for path in pictures:
        screen.note(f"plot     {path}")
    screen.note(f"runs     python -m embedexp status {study.study_name}")


def command(fixed: Sequence[str], trial: FrozenTrial) -> str:
    """The command line that runs a trial's experiment."""
    words = ["python", "-m", "embedexp", *last_of_each([*fixed, *trial.user_attrs[OVERRIDES]])]
    return shlex.join(words)
