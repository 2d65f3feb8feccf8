"""The page of a sweep, and the same as a report of Weights & Biases."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from . import OK
from .sweeps import _command, _elsewhere, _parser, _planned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.sweeps.planning import SweepPlan
    from embedexp.sweeps.table import Table


def report(arguments: Sequence[str]) -> int:
    """Write the page of a sweep file from the runs that there are, or its W&B report."""
    from embedexp.sweeps.file import find
    from embedexp.sweeps.launching import launcher_of
    from embedexp.sweeps.search.file import is_search
    from embedexp.sweeps.table import table

    parser = _parser("report")
    parser.add_argument("--wandb", action="store_true")
    parser.add_argument("--to", type=Path, metavar="FILE")
    given = parser.parse_intermixed_args(list(arguments))
    path = find(given.file)
    if is_search(path):
        raise UserError(
            f"{path.name} is a search, which has no table to report",
            hint="its trials and plots: python -m embedexp sweep " + given.file,
        )
    _, _, typed = launcher_of(given.words)
    _, planned = _planned(given, typed)
    if not any(run.directory.config_file.exists() for run in planned.runs):
        raise UserError(
            f"no cell of {given.file} has been run with these overrides",
            where=_elsewhere(planned),
            hint=f"run it: {_command('sweep', given, typed)}",
        )
    made = table(planned)
    if given.wandb:
        return _wandb(planned, made, given.to)
    target = given.to or Path(f"{path.stem}.html")
    _page(planned, made, target)
    print(f"page     {target}")
    return OK


def _page(planned: SweepPlan, made: Table, target: Path) -> None:
    from embedexp.sweeps.report import write

    shown = sys.stderr.isatty()

    def told(part: str) -> None:
        if shown:
            print(f"\r\033[K{part} ...", end="", file=sys.stderr, flush=True)

    try:
        write(planned, made, target, on_part=told)
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _wandb(planned: SweepPlan, made: Table, target: Path | None) -> int:
    from embedexp.sweeps.wandb_report import publish, specification

    if target is None:
        print(f"draft    {publish(planned, made)}")
        return OK
    text = json.dumps(specification(planned, made), indent=2, ensure_ascii=False) + "\n"
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{target} can't be written: {error.strerror}") from None
    print(f"report   {target}")
    return OK
