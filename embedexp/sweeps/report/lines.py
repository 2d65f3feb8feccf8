"""Which runs belong together on a page: repetitions of one experiment are one line of a chart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embedexp.runs import State

from ..cells import JOIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedexp.runs import RunDirectory

    from ..planning import PlannedRun, SweepPlan

_SEED = re.compile(rf"(?:{re.escape(JOIN)})?seed (-?\d+)$")


@dataclass(frozen=True)
class Line:
    """Runs that differ in their seed alone: `name` in the legend of the charts of `facet`."""

    name: str
    facet: str
    runs: Mapping[int, PlannedRun]

    @property
    def full_name(self) -> str:
        """Name and facet in one string."""
        return JOIN.join(part for part in (self.name, self.facet) if part)

    @property
    def first(self) -> PlannedRun:
        """The run with the lowest seed."""
        return self.runs[min(self.runs)]

    def directories(self) -> list[RunDirectory]:
        """Those that finished, in the order of seeds; all that there are if none has finished."""
        every = [self.runs[seed].directory for seed in sorted(self.runs)]
        done = [run for run in every if run.status.state is State.FINISHED]
        return done or [run for run in every if run.config_file.exists()]


def shown(plan: SweepPlan) -> list[Line]:
    """The runs that the table's cells show; cells that show one run are one line."""
    names: dict[str, list[str]] = {}
    first: dict[str, tuple[str, int, PlannedRun]] = {}
    for cell, run in plan.cells:
        signature = run.config.signature
        names.setdefault(signature, []).append(cell.row)
        first.setdefault(signature, (cell.column, cell.seed, run))
    found: dict[tuple[str, str], dict[int, PlannedRun]] = {}
    for signature, (column, seed, run) in first.items():
        name = ", ".join(dict.fromkeys(names[signature]))
        found.setdefault((name, column), {})[seed] = run
    return [Line(name, facet, runs) for (name, facet), runs in found.items()]


def earlier(plan: SweepPlan) -> list[Line]:
    """The runs that cells only build on, such as their pretraining."""
    seen = {run.config.signature for _, run in plan.cells}
    found: dict[str, dict[int, PlannedRun]] = {}
    for run in plan.runs:
        if run.config.signature not in seen:
            name = _SEED.sub("", run.label) or run.stage
            found.setdefault(name, {})[run.config.seed] = run
    return [Line(name, "", runs) for name, runs in found.items()]
