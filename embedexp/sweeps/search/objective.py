"""What a search looks at in a finished run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from embedexp.config.errors import UserError, nearest
from embedexp.runs import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.config import Config
    from embedexp.runs import RunDirectory

    from .settings import Direction

MEAN, LOSS, SECONDS = "mean", "loss", "seconds"
LAST = 20
"""Logged steps over whose training losses `loss` is the mean."""


class NoValueError(Exception):
    """A finished run has no value of an objective; why, in a few words."""


class Objective(Protocol):
    """One number of a finished run, and which way is better."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def direction(self) -> Direction:
        """Which way is better."""
        ...

    def read(self, run: RunDirectory) -> float:
        """Its value in a finished run.

        Raises:
            NoValueError: there is none, or it is not finite.
        """
        ...


@dataclass(frozen=True)
class Named:
    """`mean` over tasks after training, a task by name, training `loss`, or `seconds`."""

    name: str
    direction: Direction

    def read(self, run: RunDirectory) -> float:
        """Its value in a finished run; see `Objective`."""
        if self.name == SECONDS:
            return run.status.seconds
        if self.name == LOSS:
            losses = [line["loss"] for line in run.metrics.read() if "loss" in line][-LAST:]
            return _finite(sum(losses) / len(losses) if losses else None, "the run logged no loss")
        scores = Run(run).scores["after"]
        values = [one["value"] for one in scores if self.name in (MEAN, one["task"])]
        names = ", ".join(str(one["task"]) for one in scores) or "nothing"
        mean = sum(values) / len(values) if values else None
        return _finite(mean, f"no score of {self.name}; measured is {names}")


def require_measured(objectives: Sequence[Objective], config: Config) -> None:
    """Check the named objectives against an experiment that was composed.

    Raises:
        UserError: the experiment will not measure one of them.
    """
    for objective in objectives:
        if not isinstance(objective, Named) or objective.name in (LOSS, SECONDS):
            continue
        option = config.evaluation
        if "evaluation" not in config.stage.uses or option.name == "none":
            raise UserError(
                f"the search looks at the score {objective.name}, and nothing is scored",
                hint="choose an evaluation, or hydra.sweeper.objective=loss direction=minimize",
            )
        tasks = getattr(option, "tasks", [])
        # Public benchmarks name tasks that only mteb knows; those are seen in the scores.
        if option.name == "builtin" and objective.name != MEAN and objective.name not in tasks:
            held = getattr(option, "heldout", False) and config.data.name != "builtin"
            if held:
                continue
            best = nearest(objective.name, [MEAN, LOSS, SECONDS, *tasks])
            raise UserError(
                f"the search looks at {objective.name}, which is not measured"
                + (f"; did you mean {best}?" if best else ""),
                hint=f"measured are: mean, {', '.join(tasks)}; loss and seconds too",
            )


def _finite(value: float | None, otherwise: str) -> float:
    if value is None:
        raise NoValueError(otherwise)
    if not math.isfinite(value):
        raise NoValueError(f"the value is {value}")
    return float(value)
