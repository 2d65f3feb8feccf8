"""Freeze the code: a copy that runs use, so that what is edited later changes nothing pending."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.locations import PACKAGE, conf_dir
from embedexp.runs.environment import CODE_FILE, code_version

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ".code"
_DIGITS = 12


def snapshot(runs_folder: str | Path) -> Path:
    """The folder below `runs_folder` that holds a copy of the code as it is now.

    It is named after the content and made once. Nothing in it is ever changed; one that no
    unfinished run refers to may be deleted.

    Raises:
        UserError: the folder can't be written.
    """
    files = {path: source.read_bytes() for path, source in sorted(_sources())}
    digest = hashlib.sha256()
    for path, content in files.items():
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    folder = Path(runs_folder).absolute() / FOLDER
    target = folder / digest.hexdigest()[:_DIGITS]
    if not target.is_dir():
        try:
            _write(files, folder, target)
        except OSError as error:
            raise UserError(
                f"the code can't be copied to {target}: {error.strerror}",
                hint="free some space, or start with hydra.launcher.snapshot=false",
            ) from None
    return target


def code_folder(runs_folder: str | Path, *, frozen: bool) -> Path:
    """The folder from which runs import the code: a snapshot, or where this process has its own."""
    return snapshot(runs_folder) if frozen else PACKAGE.parent


def variables(code: Path, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The variables with which Python takes this project's packages from `code`.

    Python would put the current folder, where a checkout may lie, before all others; the variable
    PYTHONSAFEPATH keeps it from that.
    """
    known = os.environ if environment is None else environment
    others = [part for part in known.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = [str(code), *(part for part in others if part != str(code))]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}


def _sources() -> Iterator[tuple[str, Path]]:
    """Every file of a snapshot: its path there, and where it lies now."""
    beside = PACKAGE.parent
    folders = {PACKAGE.name: PACKAGE, "hydra_plugins": beside / "hydra_plugins"}
    if not conf_dir().is_relative_to(PACKAGE):
        folders |= {"conf": conf_dir(), "slurm/profiles": beside / "slurm" / "profiles"}
    for name, folder in folders.items():
        # Other packages have their plugins in the same folder.
        pattern = "embedexp_*.py" if name == "hydra_plugins" else "*"
        for path in folder.rglob(pattern):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield f"{name}/{path.relative_to(folder).as_posix()}", path


def _write(files: dict[str, bytes], folder: Path, target: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder))
    try:
        for name, content in files.items():
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        text = json.dumps(code_version(PACKAGE), indent=2) + "\n"
        (temporary / CODE_FILE).write_text(text, encoding="utf-8")
        temporary.chmod(0o755)
        try:
            temporary.rename(target)
        except OSError:
            # Another launcher has made the same one meanwhile.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
