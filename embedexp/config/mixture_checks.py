"""Checks of `data=mixture`: its numbers, and its sources as if each were the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import data_checks
from .errors import UserError
from .mixture_counts import told_of, wanted
from .problems import Problem, Rule, rule

if TYPE_CHECKING:
    from .experiment import Config


@rule("data")
def counts_and_shares_add_up(config: Config) -> Problem | None:
    """Every source has one number of examples."""
    if config.data.name != "mixture":
        return None
    try:
        wanted(config.data)
    except UserError as error:
        return Problem(error.what, error.hint or "mend the sources")
    return None


@rule("data")
def sources_are_sound(config: Config) -> Problem | None:
    """What is wrong with a source alone is wrong with it in a mixture."""
    if config.data.name != "mixture":
        return None
    found: list[Problem] = []
    lacking: list[Problem] = []
    for name, part in sorted(config.data.sources.items()):
        alone = config.model_copy(update={"data": part.data})
        for each in data_checks.RULES:
            problem = each(alone)
            if problem is None:
                continue
            told = Problem(
                f"{told_of(name, problem.message)} (source {name})",
                told_of(name, problem.fix),
                problem.severity,
            )
            # One source without hard negatives is fine where another has some.
            (lacking if each is data_checks.own_negatives_exist else found).append(told)
    if len(lacking) == len(config.data.sources):
        found += lacking
    return min(found, key=lambda problem: problem.severity != "error", default=None)


RULES: tuple[Rule, ...] = (counts_and_shares_add_up, sources_are_sound)
