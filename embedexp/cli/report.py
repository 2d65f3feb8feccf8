"""The page of a sweep, and the same as a report of Weights & Biases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from . import OK
from .search import report_search
from .sweeps import command_of, planned_sweep, sweep_parser, where_looked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.sweeps.planning import SweepPlan
    from embedexp.sweeps.table import Table


def report(arguments: Sequence[str]) -> int:
    """Write the page of a sweep file from the runs that there are, or its W&B report.

    A search has a page of its trials.
    """
    from embedexp.sweeps.file import find
    from embedexp.sweeps.launching import launcher_of
    from embedexp.sweeps.search.file import is_search
    from embedexp.sweeps.table import table

    parser = sweep_parser("report")
    parser.add_argument("--wandb", action="store_true")
    parser.add_argument("--to", type=Path, metavar="FILE")
    given = parser.parse_intermixed_args(list(arguments))
    path = find(given.file)
    if is_search(path):
        return report_search(path, given)
    _, _, typed = launcher_of(given.words)
    _, planned = planned_sweep(given, typed)
    if not any(run.directory.config_file.exists() for run in planned.runs):
        raise UserError(
            f"no cell of {given.file} has been run with these overrides",
            where=where_looked(planned),
            hint=f"run it: {command_of('sweep', given, typed)}",
        )
    made = table(planned)
    if given.wandb:
        return _wandb(planned, made, given.to)
    target = given.to or Path(f"{path.stem}.html")
    _page(planned, made, target)
    print(f"page     {target}")
    return OK


def _page(planned: SweepPlan, made: Table, target: Path) -> None:
    from rich.console import Console

    from embedexp.runs.text import markup
    from embedexp.sweeps.report import write

    # Shown while it is made, and on a terminal only.
    with Console(stderr=True).status("the page") as line:
        write(planned, made, target, on_part=lambda part: line.update(markup(part)))


def _wandb(planned: SweepPlan, made: Table, target: Path | None) -> int:
    from embedexp.files import write_atomically
    from embedexp.sweeps.wandb_report import publish, specification

    if target is None:
        print(f"draft    {publish(planned, made)}")
        return OK
    text = json.dumps(specification(planned, made), indent=2, ensure_ascii=False) + "\n"
    try:
        write_atomically(target, text)
    except OSError as error:
        raise UserError(f"{target} can't be written: {error.strerror}") from None
    print(f"report   {target}")
    return OK
