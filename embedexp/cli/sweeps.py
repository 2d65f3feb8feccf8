"""Sweeps from the command line: run what is missing of a table, and print the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from . import OK, RUN_FAILED
from .commands import run_parser
from .search import elsewhere

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from embedexp.sweeps.planning import SweepPlan


def sweep(arguments: Sequence[str]) -> int:
    """Plan the cells of a sweep file, run the missing ones, and print the table."""
    from embedexp.sweeps.formats import render
    from embedexp.sweeps.launching import description, launch, launcher_of
    from embedexp.sweeps.table import table

    parser = sweep_parser("sweep")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--wandb", action="store_true")
    parser.add_argument("--to", type=Path, metavar="FILE")
    given = parser.parse_intermixed_args(list(arguments))
    if (code := elsewhere(given)) is not None:
        return code
    name, settings, typed = launcher_of(given.words)
    path, planned = planned_sweep(given, typed)
    processes = int(settings["processes"]) if name == "local" else len(planned.to_run) or 1
    # What can't be shown is found out before hours of computing, not after.
    table(planned)
    print(planned.sweep.title)
    print("\n".join(description(planned, processes)), flush=True)
    if given.plan:
        return OK
    if planned.to_run:
        outcomes = launch(planned, path, name, settings)
        bad = [one for one in outcomes if one.state not in ("finished", "queued", "running")]
    else:
        bad = []
    print()
    print(render(table(planned), "terminal"), end="")
    print(f"\ntable    {command_of('table', given, typed)} --to table.md")
    return RUN_FAILED if bad else OK


def show_table(arguments: Sequence[str]) -> int:
    """Print the table of a sweep file from the runs that have finished."""
    from embedexp.files import write_atomically
    from embedexp.sweeps.formats import format_of, render
    from embedexp.sweeps.launching import launcher_of
    from embedexp.sweeps.table import table

    parser = sweep_parser("table")
    parser.add_argument("--format")
    parser.add_argument("--to", type=Path, metavar="FILE")
    given = parser.parse_intermixed_args(list(arguments))
    chosen = given.format or (format_of(given.to.suffix) if given.to is not None else "terminal")
    _, _, typed = launcher_of(given.words)
    _, planned = planned_sweep(given, typed)
    made = table(planned)
    text = render(made, chosen)
    if not any(entry.values for entry in made.entries.values()):
        raise UserError(
            f"no cell of {given.file} has finished with these overrides",
            where=where_looked(planned),
            hint=f"run it: {command_of('sweep', given, typed)}",
        )
    if given.to is None:
        print(text, end="")
        return OK
    try:
        write_atomically(given.to, text)
    except OSError as error:
        raise UserError(f"{given.to} can't be written: {error.strerror}") from None
    print(f"table    {given.to}")
    return OK


def sweep_parser(name: str) -> argparse.ArgumentParser:
    """A parser of a command that takes a sweep file and overrides."""
    parser = run_parser(name)
    parser.add_argument("file")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--only", action="append", default=[], metavar="LABEL")
    parser.add_argument("--seeds")
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    return parser


def planned_sweep(given: argparse.Namespace, typed: list[str]) -> tuple[Path, SweepPlan]:
    """The file that was meant, and the plan of its cells and runs."""
    from embedexp.sweeps.file import find, read
    from embedexp.sweeps.planning import plan

    for word in typed:
        if "=" not in word and not word.startswith("~"):
            raise UserError(f"{word!r} is no override", hint="key=value; labels go to --only LABEL")
    path = find(given.file)
    if given.runs is not None:
        typed = [*typed, f"paths.runs={given.runs}"]
    planned = plan(
        read(path),
        typed,
        labels=given.only,
        seeds=seeds_of(given.seeds),
        config_dirs=given.config_dir,
    )
    return path, planned


def seeds_of(text: str | None) -> list[int] | None:
    """The seeds of `--seeds`, each once; None where it was not given.

    Raises:
        UserError: it holds something else.
    """
    if text is None:
        return None
    try:
        return list(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UserError(
            f"--seeds {text}", hint="whole numbers with commas: --seeds 0,1,2"
        ) from None


def command_of(name: str, given: argparse.Namespace, typed: Sequence[str]) -> str:
    """The command line of `name` for the same cells, scale and folders."""
    import shlex

    words = ["python", "-m", "embedexp", name, given.file, *typed]
    words += [part for label in given.only for part in ("--only", label)]
    words += ["--seeds", given.seeds] if given.seeds else []
    words += ["--runs", given.runs] if given.runs else []
    words += [part for folder in given.config_dir for part in ("--config-dir", folder)]
    return shlex.join(words)


def where_looked(planned: SweepPlan) -> str:
    """Where was looked, so that a forgotten scale=demo is seen."""
    first = planned.cells[0][1]
    scale = "demo" if planned.scope.demo else "full"
    return f"looked for {first.directory.path} and the like (scale={scale})"
