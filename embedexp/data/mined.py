"""Where mined negatives are: one file, or the folder that a mining run wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from embedexp.config.errors import UserError

from . import lines

FOLDER, MANIFEST = "mined", "manifest.json"
FORMAT = 1  # raise when the columns or their meaning change


def locate(path: str, key: str) -> list[Path]:
    """The files of a path: itself, or those that the manifest in a folder names, in its order.

    Raises:
        UserError: it is missing, of another format, or a folder whose mining is not complete.
    """
    given = Path(path).expanduser()
    if (folder := _folder(given)) is not None:
        return [folder / entry["name"] for entry in manifest(folder, key)["files"]]
    if given.is_dir():
        raise UserError(
            f"{given} holds no mined negatives",
            where=f"{key}={path}",
            hint="name a finished run of stage=mine, or one .parquet or .jsonl file",
        )
    if given.suffix == ".parquet" and given.is_file():
        return [given]
    return [lines.existing(path, key)]


def fingerprint(path: str, key: str) -> str:
    """SHA-256 of the content: of the file, or of the manifest, which has that of its files.

    Raises:
        UserError: see `locate`.
    """
    (first, *_) = [*locate(path, key), None]
    folder = _folder(Path(path).expanduser())
    counted = folder / MANIFEST if folder is not None else first
    assert counted is not None
    with counted.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _folder(given: Path) -> Path | None:
    """The folder with a manifest, given itself or as its run."""
    return next((f for f in (given / FOLDER, given) if (f / MANIFEST).is_file()), None)


def manifest(folder: Path, key: str) -> dict[str, Any]:
    """What a mining run wrote about its files.

    Raises:
        UserError: it is unreadable, of another version, or some files are not mined yet.
    """
    try:
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        complete, version = bool(content["complete"]), content["format"]
        missing = [e["name"] for e in content["files"] if not (folder / e["name"]).is_file()]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{folder / MANIFEST} can't be read", where=key, hint="mine again with rerun=true"
        ) from None
    if version != FORMAT:
        raise UserError(
            f"{folder} has format {version}, this version reads {FORMAT}",
            where=key,
            hint="mine again with rerun=true",
        )
    if missing or not complete:
        what = f"{missing[0]} is missing" if missing else "some of its shards are not there"
        raise UserError(
            f"{folder} is not complete: {what}",
            where=key,
            hint="run the same command without stage.shard: it mines what is missing",
        )
    return content
