"""`data=jsonl`: the user's own examples, one JSON object a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import files, reading
from .lines import JSON_LINES, read_lines
from .rows import Reader, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.config.schema.data import Jsonl

    from .dataset import Corpus
    from .rows import Wanted


def load(option: Jsonl, cache_dir: str | Path | None = None) -> Corpus:
    """The examples of the files' lines, some of them held out.

    Raises:
        UserError: a file is missing or damaged, a column is, or lines are bad; see `reading.load`.
    """
    return reading.load(option, reader(option), fingerprint(option), cache_dir)


def reader(option: Jsonl) -> Reader:
    """The lines, file by file; blank ones are passed over."""
    paths = files.existing(option.path, "data.path", JSON_LINES)

    def rows(wanted: Wanted | None) -> Iterator[Row]:
        del wanted  # a line is read whole
        for path in paths:
            name = str(path)
            for number, line in read_lines(path):
                yield Row(name, number, line)

    return Reader(files.title(option.path, JSON_LINES), rows)


def fingerprint(option: Jsonl) -> str:
    """SHA-256 of the files' bytes."""
    return files.fingerprint(files.existing(option.path, "data.path", JSON_LINES))


def describe(option: Jsonl) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; its number of examples would need reading."""
    files.existing(option.path, "data.path", JSON_LINES)
    return [(files.title(option.path, JSON_LINES), option.task, None)]


def column_names(option: Jsonl) -> list[str] | None:
    """The fields of the first line that has some."""
    for row in reader(option).rows(None):
        if isinstance(row.fields, dict) and row.fields:
            return list(row.fields)
    return None
