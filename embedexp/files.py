"""Files that are either the old or the new one, whatever happens while they are written."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to, which takes its place when it is left without an error."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step: a reader never sees half of it.

    What is no file, such as `/dev/stdout`, is written to.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
