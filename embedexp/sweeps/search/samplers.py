"""Optuna's samplers, each made anew for a trial, as a function of (seed, number of the trial)."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from .settings import SearchSettings
    from .space import Space

STARTUP = 10
"""Random trials before TPE and GP, where the settings don't say (Optuna's own default)."""

GENERATION = 50
"""Trials of a generation of NSGA-II, where the settings don't say (Optuna's own default)."""


def sampler(settings: SearchSettings, space: Space, number: int) -> BaseSampler:
    """The sampler that chooses trial `number`.

    Its random numbers depend on the seed and on `number` alone, and what it has learned is in the
    study: a search that was interrupted goes on as if it had not been. The sequence of QMC is one
    for all trials.

    Raises:
        UserError: a library is missing.
    """
    from optuna import samplers

    seed, several = _seed(settings.seed, number), len(settings.objectives) > 1
    startup = settings.startup or STARTUP
    with warnings.catch_warnings():
        # Optuna calls some of its parts experimental, and tells of every independent sample.
        warnings.filterwarnings("ignore", module="embedexp|optuna")
        warnings.filterwarnings("ignore", category=_experimental())
        match settings.sampler:
            case "random":
                return samplers.RandomSampler(seed=seed)
            case "qmc":
                return samplers.QMCSampler(
                    scramble=True,
                    seed=settings.seed,
                    independent_sampler=samplers.RandomSampler(seed=seed),
                    warn_independent_sampling=False,
                )
            case "gp":
                return samplers.GPSampler(
                    seed=seed,
                    independent_sampler=samplers.RandomSampler(seed=seed),
                    warn_independent_sampling=False,
                    n_startup_trials=startup,
                )
            case "cmaes":
                _require_cmaes()
                return samplers.CmaEsSampler(
                    seed=seed,
                    popsize=settings.population,
                    independent_sampler=samplers.RandomSampler(seed=seed),
                    warn_independent_sampling=False,
                )
            case "nsgaii":
                return samplers.NSGAIISampler(
                    seed=seed, population_size=settings.population or GENERATION
                )
            case "tpe":
                # Parameters that only some trials have are modelled in groups of their own.
                group = space.conditional and not several
                return samplers.TPESampler(seed=seed, group=group, n_startup_trials=startup)


def advice(settings: SearchSettings, space: Space) -> list[str]:
    """What the chosen sampler can't do with this space, one sentence each."""
    from .space import Choice

    found = []
    chosen = [p.key for p in space.parameters if isinstance(p, Choice)]
    if settings.sampler in ("cmaes", "qmc") and (chosen or space.conditional):
        names = ", ".join(chosen) or "conditional keys"
        found.append(
            f"{settings.sampler} is for numbers that all trials have; {names} is drawn at random"
        )
    if settings.sampler == "cmaes" and len(space.parameters) - len(chosen) < 2:
        found.append("cmaes needs two numbers or more; what it gets is drawn at random")
    if settings.sampler == "nsgaii" and settings.trials <= (settings.population or GENERATION):
        found.append(
            f"nsgaii draws its first generation, {settings.population or GENERATION} trials, at "
            f"random, and trials is {settings.trials}; set hydra.sweeper.population"
        )
    return found


def _seed(seed: int, number: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4], "big")


def _experimental() -> type[Warning]:
    from optuna.exceptions import ExperimentalWarning

    found: type[Warning] = ExperimentalWarning
    return found


def _require_cmaes() -> None:
    from importlib.util import find_spec

    if find_spec("cmaes") is None:
        raise UserError(
            "CMA-ES needs a package that is not installed", hint="pip install 'embedexp[search]'"
        )
