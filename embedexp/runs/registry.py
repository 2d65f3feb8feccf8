"""Find runs: all below a folder, or the one that a path, a name or a signature means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError, nearest

from .directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

_LISTED = 3


def find(folder: str | Path) -> list[RunDirectory]:
    """The run directories directly below `folder`, the most recently active last."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    runs = [RunDirectory(entry) for entry in folder.iterdir() if (entry / "config.yaml").is_file()]
    return sorted(runs, key=lambda run: (_last_active(run), run.name))


def resolve(text: str, folder: str | Path, also: Sequence[str] = ()) -> RunDirectory:
    """The run that `text` means: its directory, its name, or the start of its name or signature.

    `also` are names besides those of runs that `text` may have been meant for.

    Raises:
        UserError: no run below `folder`, or more than one, fits.
    """
    path = Path(text).expanduser()
    path = path.parent if path.name == "config.yaml" else path
    if (path / "config.yaml").is_file():
        return RunDirectory(path)
    runs = find(folder)
    exact = [run for run in runs if text in (run.name, run.signature)]
    fitting = exact or [
        run
        for run in runs
        if text and (run.name.startswith(text) or run.signature.startswith(text))
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(run.name for run in fitting[-_LISTED:])
        more = f" and {len(fitting) - _LISTED} more" if len(fitting) > _LISTED else ""
        raise UserError(
            f"{text!r} means {len(fitting)} runs: {names}{more}",
            hint="give more of the name, or the signature",
        )
    if not runs:
        raise UserError(
            f"no run {text!r}: there are no runs in {folder}",
            hint="start one: python -m embedexp, or look elsewhere with --runs FOLDER",
        )
    known = [name for run in runs for name in (run.name, run.signature, _title(run))]
    best = nearest(text, [*known, *also])
    there = "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"
    suggestion = f"did you mean {best}?" if best else f"{there} there"
    raise UserError(
        f"no run {text!r} in {folder}; {suggestion}", hint="list them: python -m embedexp status"
    )


def _title(run: RunDirectory) -> str:
    """The name without the signature."""
    return run.name.rpartition("-")[0]


def _last_active(run: RunDirectory) -> float:
    for file in (run.status_file, run.config_file):
        try:
            return file.stat().st_mtime
        except OSError:
            continue
    return 0.0
