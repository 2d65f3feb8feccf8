"""A multirun on disk: which runs one command has started, with which launcher and settings."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from embedexp.config.errors import UserError
from embedexp.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = ".multirun"
_DIGITS = 6


@dataclass(frozen=True)
class MultirunCell:
    """One cell: the name of its run, the overrides that set it apart, and all of its overrides."""

    run: str
    label: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Multirun:
    """The cells of one command, and how they were launched; `created` is ISO 8601 in UTC.

    `source` is the full path of the file that defines them, empty where there is none.
    """

    id: str
    cells: tuple[MultirunCell, ...]
    launcher: Literal["local", "slurm"]
    settings: dict[str, Any]
    created: str
    source: str = ""

    def runs(self, runs_folder: str | Path) -> list[Path]:
        """The run directories of the cells, in order."""
        return [Path(runs_folder) / cell.run for cell in self.cells]


def multirun_id(name: str, signatures: Iterable[str]) -> str:
    """`<name>-<6 hexadecimal digits>`: the same cells, in any order, are the same multirun."""
    joined = "\n".join(sorted(set(signatures)))
    return f"{name}-{hashlib.sha256(joined.encode()).hexdigest()[:_DIGITS]}"


def file_of(identity: str, runs_folder: str | Path) -> Path:
    """Where the record of a multirun lies."""
    return Path(runs_folder) / FOLDER / f"{identity}.json"


def write(multirun: Multirun, runs_folder: str | Path) -> Path:
    """Write the record, replacing an earlier one of the same cells; returns its file.

    Raises:
        UserError: the folder can't be written.
    """
    path = file_of(multirun.id, runs_folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(dataclasses.asdict(multirun), indent=1) + "\n")
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}") from None
    return path


def read(path: str | Path) -> Multirun:
    """The multirun in the file `path`.

    Raises:
        UserError: there is none, or it can't be read.
    """
    try:
        content = json.loads(Path(path).read_bytes())
        cells = tuple(
            MultirunCell(cell["run"], cell["label"], tuple(cell["overrides"]))
            for cell in content["cells"]
        )
        known = ("id", "launcher", "settings", "created")
        return Multirun(
            **{key: content[key] for key in known}, cells=cells, source=content.get("source", "")
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path} is no record of a multirun: {error}", hint="start the multirun again"
        ) from None


def names(runs_folder: str | Path) -> list[str]:
    """The ids of all multiruns recorded below `runs_folder`, the newest last."""
    files = (Path(runs_folder) / FOLDER).glob("*.json")
    return [path.stem for path in sorted(files, key=lambda path: path.stat().st_mtime)]


def of_file(file: Path, runs_folder: str | Path) -> Multirun | None:
    """The newest multirun that `file` defines; None if there is none below `runs_folder`."""
    full = str(file.resolve())
    found = (read(file_of(name, runs_folder)) for name in reversed(names(runs_folder)))
    return next((multirun for multirun in found if multirun.source == full), None)


def find(text: str, runs_folder: str | Path) -> Multirun | None:
    """The multirun that `text` means: its id, its file, or the only one whose id starts so.

    None where nothing fits, so that `text` may still mean a run.

    Raises:
        UserError: several multiruns fit.
    """
    path = Path(text)
    if path.suffix == ".json" and path.parent.name == FOLDER and path.is_file():
        return read(path)
    known = names(runs_folder)
    fitting = [name for name in known if text and name.startswith(text)]
    if text in known:
        fitting = [text]
    if len(fitting) > 1:
        raise UserError(
            f"{text!r} means {len(fitting)} multiruns: {', '.join(fitting[-3:])}",
            hint="give more of the id",
        )
    return read(file_of(fitting[0], runs_folder)) if fitting else None
