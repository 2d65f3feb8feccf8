"""Which runs a word of the command line means: a run, all below a folder, or a multirun's cells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from embedexp.config.errors import UserError
from embedexp.runs import RunDirectory
from embedexp.runs.registry import find, resolve

from . import multirun


@dataclass(frozen=True)
class Selection:
    """Runs that belong together, in order; `labels` by run name where they are a multirun's."""

    runs: list[RunDirectory]
    labels: dict[str, str]
    title: str = ""
    single: bool = False


def select(text: str, runs_folder: str | Path) -> Selection:
    """What `text` means: a run's path, name or signature, a folder, a multirun's id, a sweep file.

    Raises:
        UserError: nothing fits, or more than one thing; the nearest name is in the message.
    """
    if Path(text).suffix in (".yaml", ".yml") and Path(text).name != "config.yaml":
        return _of_file(text, runs_folder)
    inside = find(text) if text else []
    if inside:
        return Selection(inside, {}, text)
    ids = multirun.names(runs_folder)
    if text not in ids:
        try:
            return Selection([resolve(text, runs_folder, ids)], {}, text, single=True)
        except UserError:
            if not any(text and name.startswith(text) for name in ids) and not _is_record(text):
                raise
    found = multirun.find(text, runs_folder)
    assert found is not None
    folder = Path(text).parent.parent if _is_record(text) else runs_folder
    runs = [RunDirectory(path) for path in found.runs(folder)]
    return Selection(runs, {cell.run: cell.label for cell in found.cells}, found.id)


def _of_file(text: str, runs_folder: str | Path) -> Selection:
    """The runs that a sweep file was last launched for."""
    found = multirun.of_file(Path(text), runs_folder)
    if found is None:
        there = Path(text).is_file()
        raise UserError(
            f"{text} has not been launched into {runs_folder}" if there else f"no file {text}",
            hint=f"start it: python -m embedexp sweep {text}, or look elsewhere with --runs FOLDER"
            if there
            else "name a sweep file, a run, or a multirun's id",
        )
    runs = [RunDirectory(path) for path in found.runs(runs_folder)]
    return Selection(runs, {cell.run: cell.label for cell in found.cells}, text)


def select_all(texts: list[str], runs_folder: str | Path) -> Selection:
    """All that `texts` mean, each run once; all runs of the folder where there is no text."""
    if not texts:
        return Selection(find(runs_folder), {}, str(runs_folder))
    parts = [select(text, runs_folder) for text in texts]
    runs = {run.path.absolute(): run for part in parts for run in part.runs}
    labels = {name: label for part in parts for name, label in part.labels.items()}
    single = len(parts) == 1 and parts[0].single
    return Selection(list(runs.values()), labels, ", ".join(texts), single)


def _is_record(text: str) -> bool:
    path = Path(text)
    return path.suffix == ".json" and path.parent.name == multirun.FOLDER and path.is_file()
