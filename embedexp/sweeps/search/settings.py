"""Settings of a search: types and ranges; their defaults are in conf/hydra/sweeper/optuna.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embedexp.config.errors import UserError, nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "hydra.sweeper"
REDUCTION = 3
"""Of so many trials one goes on at each rung, where the settings don't say."""
SamplerName = Literal["tpe", "gp", "cmaes", "random", "qmc", "nsgaii"]
Direction = Literal["maximize", "minimize"]


class SearchSettings(BaseModel):
    """How a space is searched, and when the search ends."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    trials: int = Field(description="a whole number, 1 or more", ge=1)
    most_trials: int | None = Field(description="null, or 1 or more", ge=1)
    most_failures: int = Field(description="a whole number, 1 or more", ge=1)
    parallel: int | None = Field(description="null, or 1 or more", ge=1)
    objective: str | list[str] = Field(description="mean, TASK, loss or seconds, or a list")
    direction: Direction | list[Direction] = Field(description="maximize or minimize, or a list")
    sampler: SamplerName = Field(description="tpe, gp, cmaes, random, qmc or nsgaii")
    seed: int = Field(description="a whole number, 0 or more", ge=0)
    startup: int | None = Field(description="null, or 1 or more", ge=1)
    population: int | None = Field(description="null, or 2 or more", ge=2)
    seeds: list[int] | None = Field(description="null, or a list of seeds: [0,1,2]", min_length=1)
    pruner: Literal["asha", "hyperband", "median"] | None = Field(
        description="asha, hyperband, median or null"
    )
    prune_by: Literal["score", "loss"] | None = Field(description="score, loss or null")
    prune_every: int | None = Field(description="null, or 1 or more", ge=1)
    reduction: int | None = Field(description="null, or 2 or more", ge=2)
    storage: str | None = Field(description="null, a file or a database's URL", min_length=1)
    study: str | None = Field(
        description="null, or a name of letters, digits, dots, dashes and underscores",
        pattern=r"^[\w.-]+$",
    )

    @property
    def objectives(self) -> list[tuple[str, Direction]]:
        """Each objective with its direction; one direction holds for all."""
        names = [self.objective] if isinstance(self.objective, str) else self.objective
        given = [self.direction] if isinstance(self.direction, str) else self.direction
        return list(zip(names, given * len(names) if len(given) == 1 else given, strict=True))


def settings_of(given: Mapping[str, Any]) -> SearchSettings:
    """The checked settings.

    Raises:
        UserError: one is unknown or wrong, or has no effect beside the others.
    """
    try:
        settings = SearchSettings.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            best = nearest(key, SearchSettings.model_fields)
            raise UserError(
                f"a search has no setting {key}" + (f"; did you mean {best}?" if best else ""),
                hint=f"its settings: {', '.join(SearchSettings.model_fields)}",
            ) from None
        field = SearchSettings.model_fields[key]
        if first["type"] == "missing":
            raise UserError(
                f"{PREFIX}.{key} is missing", hint=f"give {field.description}"
            ) from None
        value = shorten(given.get(key), 60)
        raise UserError(f"{PREFIX}.{key}={value}, but it takes {field.description}") from None
    _require_sense(settings)
    return settings


def _require_sense(settings: SearchSettings) -> None:
    names = [settings.objective] if isinstance(settings.objective, str) else settings.objective
    directions = settings.direction
    if not names or len(set(names)) < len(names):
        raise UserError(
            f"{PREFIX}.objective={names}, but it takes different objectives",
            hint="one: mean; several: [WordNetDefinitions,seconds]",
        )
    if isinstance(directions, list) and len(directions) not in (1, len(names)):
        raise UserError(
            f"{len(names)} objectives have {len(directions)} directions",
            hint=f"{PREFIX}.direction takes one for all, or one for each",
        )
    sampler, several = settings.sampler, len(names) > 1
    if several and sampler == "cmaes":
        raise UserError(
            "CMA-ES has one objective", hint=f"{PREFIX}.sampler=nsgaii or tpe takes several"
        )
    if several and settings.pruner is not None:
        raise UserError(
            f"{PREFIX}.pruner={settings.pruner} needs a single objective",
            hint="drop the pruner, or all objectives but one",
        )
    if settings.seeds is not None:
        if len(set(settings.seeds)) < len(settings.seeds):
            raise UserError(f"{PREFIX}.seeds names a seed twice", hint="name each seed once")
        if settings.pruner is not None and len(settings.seeds) > 1:
            raise UserError(
                f"{PREFIX}.pruner={settings.pruner} needs trials of one run each",
                hint=f"drop the pruner, or all of {PREFIX}.seeds but one",
            )
    if settings.startup is not None and sampler not in ("tpe", "gp"):
        raise UserError(
            f"{PREFIX}.startup has no effect with {PREFIX}.sampler={sampler}",
            hint="only tpe and gp start with random trials; drop it",
        )
    if settings.population is not None and sampler not in ("nsgaii", "cmaes"):
        raise UserError(
            f"{PREFIX}.population has no effect with {PREFIX}.sampler={sampler}",
            hint="only nsgaii and cmaes have generations; drop it",
        )
    for key in ("prune_by", "prune_every", "reduction"):
        if settings.pruner is None and getattr(settings, key) is not None:
            raise UserError(
                f"{PREFIX}.{key} has no effect without a pruner",
                hint=f"{PREFIX}.pruner=asha, or drop it",
            )
    if settings.pruner == "median" and settings.reduction is not None:
        raise UserError(
            f"{PREFIX}.reduction has no effect with {PREFIX}.pruner=median",
            hint="only asha and hyperband have rungs; drop it",
        )
    if settings.most_trials is not None and settings.most_trials < settings.trials:
        raise UserError(
            f"{PREFIX}.most_trials={settings.most_trials} is below trials={settings.trials}",
            hint="it counts all trials, the completed ones among them",
        )
