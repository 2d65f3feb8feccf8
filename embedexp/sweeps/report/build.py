"""From a planned sweep to the page's sections, and the page's file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote

from embedexp.config.errors import UserError
from embedexp.files import write_atomically
from embedexp.runs import State
from embedexp.runs.text import duration

from ..formats import NONE
from . import analyses, training
from .curves import record
from .differences import table as config_table
from .lines import earlier, shown
from .results import differences_charts, levels_charts, scores
from .tables import Cell, Grid, Heading, comparisons, main, plain_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..planning import PlannedRun, SweepPlan
    from ..table import Table
    from .svg import Chart


@dataclass
class Section:
    """A heading with its words, charts and tables; `folded` ones open on demand."""

    key: str
    heading: str
    words: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Grid] = ()
    folded: Sequence[Section] = ()

    @property
    def groups(self) -> list[list[Chart]]:
        """The charts, those of one group together; groups of one share their rows."""
        found = [list(some) for _, some in groupby(self.charts, key=lambda chart: chart.group)]
        alone = all(len(some) == 1 for some in found)
        return [list(self.charts)] if found and alone else found


@dataclass(frozen=True)
class Page:
    """All that the template shows."""

    title: str
    subtitle: str
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    footnotes: Sequence[str]


def write(
    plan: SweepPlan, made: Table, to: Path, *, on_part: Callable[[str], None] = lambda _: None
) -> None:
    """Write the page of a sweep; a reader sees the old file or the new one, whole.

    Args:
        plan: The sweep's cells and runs.
        made: Its table.
        to: The file, from which links to run directories start.
        on_part: Told what is being made.

    Raises:
        UserError: the file can't be written.
    """
    save(page(plan, made, to.absolute().parent, on_part), to)


def save(made: Page, to: Path) -> None:
    """Write a page; a reader sees the old file or the new one, whole.

    Raises:
        UserError: the file can't be written.
    """
    from .page import render

    text = render(made)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(to, text)
    except OSError as error:
        raise UserError(f"{to} can't be written: {error.strerror}") from None


def page(
    plan: SweepPlan, made: Table, folder: Path, on_part: Callable[[str], None] = lambda _: None
) -> Page:
    """The sections that the sweep's runs have something for, links as seen from `folder`."""
    cells, before = shown(plan), earlier(plan)
    on_part("table")
    parts = [_table(made), _comparisons(made)]
    on_part("training")
    for key, heading, words, charts, folded in training.parts(
        record(cells), record(before), on_part
    ):
        inner = [Section(f"{key}-more", name, charts=more) for name, more in folded]
        parts.append(Section(key, heading, words, charts, folded=inner))
    on_part("analyses")
    for key, heading, words, charts, tables in analyses.parts(cells):
        inner = [Section(f"{key}-figures", "Figures", tables=tables)] if tables else []
        parts.append(Section(key, heading, words, charts, folded=inner))
    on_part("configs")
    if len(cells) > 1:
        grid, told = config_table(cells)
        parts.append(Section("configs", "What differs", [told], tables=[grid] if grid else []))
    parts += [_scores(plan), _runs(plan, folder)]
    there = [part for part in parts if part is not None]
    return Page(made.title, made.subtitle, _facts(plan, made), there, made.footnotes)


def _facts(plan: SweepPlan, made: Table) -> list[tuple[str, str]]:
    """The page in a few figures."""
    states = [run.directory.status for run in plan.runs]
    done = sum(status.state is State.FINISHED for status in states)
    found = [("runs finished", f"{done} of {len(states)}")]
    seeds = {cell.seed for cell, _ in plan.cells}
    found.append(("seed" if len(seeds) == 1 else "seeds", f"{len(seeds)}"))
    verdicts = [one.verdict for one in made.comparisons]
    claims = len(verdicts) - verdicts.count("no claim")
    if claims:
        for name in ("reproduced", "contradicted", "undecided", "not measured"):
            if verdicts.count(name):
                found.append((name, f"{verdicts.count(name)} of {claims}"))
    found.append(("of computing", duration(sum(status.seconds for status in states))))
    found.append(("scale", "demo" if plan.scope.demo else "full"))
    return found


def _table(made: Table) -> Section:
    words = [made.question]
    if not made.complete:
        words.append("Not every cell has its figures; the notes below the table say why.")
    return Section("table", "Table", words, levels_charts(made), [main(made)])


def _comparisons(made: Table) -> Section | None:
    if not made.comparisons:
        return None
    words = [
        "A difference counts as reproduced or contradicted only where the test over seeds decides "
        "at 5%, two-sided; p-values are not corrected for the number of comparisons."
    ]
    charts, tables = differences_charts(made), [comparisons(made)]
    return Section("comparisons", "Comparisons", words, charts, tables)


def _scores(plan: SweepPlan) -> Section | None:
    tables = scores(plan)
    if not tables:
        return None
    inner = [Section("scores-tables", "Means over seeds, in points", tables=tables)]
    return Section("scores", "Scores by task", folded=inner)


def _runs(plan: SweepPlan, folder: Path) -> Section:
    headings = ["run", "state", "steps", "time", "directory"]
    found = plain_grid("Runs", headings, [])
    for run in plan.runs:
        status, there = run.directory.status, run.directory.config_file.exists()
        told = (status.message or "").strip().splitlines()[:1]
        state = ": ".join([status.shown if there else "not run", *told])
        where = link(run.directory.path, folder) if there else ""
        row = [
            Cell(run.label or run.stage),
            Cell(state, "" if status.state is State.FINISHED else "missing"),
            Cell(f"{status.step:,}" if status.step else NONE, "number"),
            Cell(duration(status.seconds) if there else NONE, "number"),
            Cell(run.directory.name, href=where),
        ]
        row += [Cell(name, href=link(path, folder)) for name, path in _files(run)]
        found.rows.append(row)
    most = max(len(row) for row in found.rows)
    if most > len(headings):
        found.headings[0].append(Heading("files", columns=most - len(headings)))
    for row in found.rows:
        row += [Cell("")] * (most - len(row))
    words = ["Links lead from this file's place to the run directories, and break if it moves."]
    return Section("runs", "Runs", words, tables=[found])


def _files(run: PlannedRun) -> list[tuple[str, Path]]:
    """What a reader may want to open of a run."""
    directory = run.directory
    every = [
        ("config", directory.config_file),
        ("log", directory.log_file),
        ("mining report", directory.path / "report.html"),
    ]
    return [(name, path) for name, path in every if path.is_file()]


def link(path: Path, folder: Path) -> str:
    """A relative address of `path` from `folder`; a folder on another drive has none."""
    try:
        relative = os.path.relpath(path.absolute(), folder)
    except ValueError:
        return path.absolute().as_uri()
    # "./", so that a name with a colon is no scheme.
    return f"./{quote(relative.replace(os.sep, '/'))}"
