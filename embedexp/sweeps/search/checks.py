"""Checks of a search before it starts: some trial is valid, and trials can be pruned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.resources import resources

from .objective import LOSS, MEAN, SECONDS, Named, require_measured
from .runs import last_of_each
from .settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from embedexp.config import Config

    from .settings import SearchSettings
    from .space import Space

TRIED = 8
"""Random trials of which one must be valid."""
# Groups that change what a training loss measures, or what is added to it.
_OTHER_LOSS = (
    "loss",
    "batching",
    "negatives",
    "data",
    "columns",
    "stage",
    "routing",
    "paper",
    "scale",
)


def probe(
    fixed: Sequence[str],
    space: Space,
    settings: SearchSettings,
    config_dirs: Sequence[str | Path] = (),
) -> Config:
    """A valid trial's config, so that a misspelt key is not found out trial by trial.

    Raises:
        UserError: Optuna is missing, none of several random trials is valid, or what the search
            looks at is not measured in them.
    """
    try:
        import optuna
    except ImportError:
        raise UserError(
            "a search needs Optuna, which is not installed", hint="pip install 'embedexp[search]'"
        ) from None
    from embedexp.config import compose

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    _require_directions(settings)
    objectives = [Named(name, direction) for name, direction in settings.objectives]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=settings.seed))
    first: UserError | None = None
    for _ in range(TRIED):
        try:
            config = compose(last_of_each([*fixed, *space.suggest(study.ask())]), config_dirs)
            _ = config.signature
        except UserError as error:
            first = first or error
            continue
        require_measured(objectives, config)
        return config
    assert first is not None
    raise first


def _require_directions(settings: SearchSettings) -> None:
    for name, direction in settings.objectives:
        if name in (LOSS, SECONDS) and direction == "maximize":
            raise UserError(
                f"the search would look for the largest {name}",
                hint=f"{PREFIX}.direction=minimize; of several: one direction for each",
            )


def require_comparable(settings: SearchSettings, space: Space) -> None:
    """Check that training losses of trials mean the same where the search looks at them.

    Raises:
        UserError: they don't.
    """
    if LOSS in dict(settings.objectives):
        _require_one_loss(space, f"{PREFIX}.objective={MEAN} compares them by what is measured")


def _require_one_loss(space: Space, hint: str) -> None:
    bad = [key for key in space.touched() if key.split(".")[0].split("/")[0] in _OTHER_LOSS]
    if bad:
        raise UserError(
            f"training losses of trials that differ in {bad[0]} can't be compared", hint=hint
        )


def require_prunable(settings: SearchSettings, space: Space, example: Config) -> None:
    """Check that what runs report while they train can be compared.

    Raises:
        UserError: it can't, or there is nothing to report.
    """
    if settings.pruner is None:
        return
    ((name, _),) = settings.objectives
    if "training" not in example.stage.uses:
        raise UserError(
            f"{PREFIX}.pruner={settings.pruner} has no effect: "
            f"stage={example.stage.name} does not train",
            hint="drop it",
        )
    if settings.prune_by == "loss":
        _require_one_loss(space, f"{PREFIX}.prune_by=score compares them by the objective itself")
        return
    if name in (LOSS, SECONDS):
        raise UserError(
            f"the objective {name} is no score that a run could report while it trains",
            hint=f"{PREFIX}.prune_by=loss, or an objective that is measured: {MEAN}",
        )
    if resources(example.compute).world > 1 and "fsdp" in example.compute.name:
        raise UserError(
            f"{PREFIX}.prune_by=score needs the whole model in one process, not compute="
            f"{example.compute.name}",
            hint=f"{PREFIX}.prune_by=loss where losses can be compared, or drop the pruner",
        )
