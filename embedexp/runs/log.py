"""`log.txt`: everything that a run's process logs, and its warnings."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .text import redact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Redacting(logging.Formatter):
    """Lines with their time, without secrets, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


@contextmanager
def recording(path: Path, level: int = logging.INFO) -> Iterator[None]:
    """Append all log records of at least `level`, and all warnings, to the file `path`."""
    handler = logging.FileHandler(path, mode="a", encoding="utf-8")
    handler.setLevel(level)
    handler.setFormatter(_Redacting("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    old_level = root.level
    root.addHandler(handler)
    root.setLevel(min(level, old_level))
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(old_level)
        root.removeHandler(handler)
        handler.close()
