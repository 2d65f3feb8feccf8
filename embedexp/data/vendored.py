"""The files shipped in `builtin_files/`: each is checked against the manifest when it is read."""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

from embedexp.config.errors import UserError

FOLDER = Path(__file__).parent / "builtin_files"


@cache
def manifest() -> dict[str, Any]:
    """What is shipped: sources, checksums, number of examples by dataset, fingerprint."""
    loaded: dict[str, Any] = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    return loaded


def read(name: str) -> bytes:
    """The content of a shipped file, decompressed.

    Raises:
        UserError: the file is missing, or is not the one that the manifest names.
    """
    path = FOLDER / name
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise _damaged(path, "is missing") from None
    if hashlib.sha256(content).hexdigest() != manifest()["files"].get(name):
        raise _damaged(path, "differs from its checksum")
    return lzma.decompress(content) if name.endswith(".xz") else content


def read_json(name: str) -> Any:
    """A shipped JSON file."""
    return json.loads(read(name))


def read_json_lines(name: str) -> list[Any]:
    """A shipped file of JSON lines."""
    return [json.loads(line) for line in read(name).splitlines()]


def tokenizer_folder() -> Path:
    """The built-in WordPiece tokenizer, for `AutoTokenizer.from_pretrained`."""
    for name in manifest()["files"]:
        if name.startswith("tokenizer/"):
            read(name)
    return FOLDER / "tokenizer"


def _damaged(path: Path, what: str) -> UserError:
    return UserError(
        f"the built-in data is damaged: {path.name} {what}",
        where=f"in {path.parent}",
        hint="install embedexp again: pip install --force-reinstall --no-deps embedexp",
    )
