"""`data=csv`: the user's own examples, one a line of cells between commas or tabs."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import files, reading
from .rows import BadRowError, Reader, Row, bad_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.config.schema.data import Csv

    from .dataset import Corpus
    from .rows import Wanted

TABLES = files.Format((".csv", ".tsv"), "a CSV file", "data=csv reads .csv and .tsv")
LONGEST_CELL = 1 << 24  # characters: a longer one is a quotation mark that nothing closes


def load(option: Csv, cache_dir: str | Path | None = None) -> Corpus:
    """The examples of the files' lines, some of them held out.

    Raises:
        UserError: a file is missing or damaged, a column is, or lines are bad; see `reading.load`.
    """
    return reading.load(option, reader(option), fingerprint(option), cache_dir)


def reader(option: Csv) -> Reader:
    """The lines, file by file, each numbered by the line that it begins on.

    With `quoted`, cells in quotation marks may hold line ends, delimiters and doubled quotation
    marks; a mark that closes no cell, or is never closed, is an error, for the lines up to the next
    mark would be taken for one cell.
    """
    paths = _paths(option)

    def rows(wanted: Wanted | None) -> Iterator[Row]:
        del wanted  # a line is read whole
        for path in paths:
            yield from _rows(path, option)

    columns = _header(paths[0], option)
    return Reader(files.title(option.path, TABLES), rows, columns, all_text=True)


def fingerprint(option: Csv) -> str:
    """SHA-256 of the files' bytes."""
    return files.fingerprint(_paths(option))


def describe(option: Csv) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; its number of examples would need reading."""
    _paths(option)
    return [(files.title(option.path, TABLES), option.task, None)]


def column_names(option: Csv) -> list[str] | None:
    """The names in the first line, or its positions."""
    return _header(_paths(option)[0], option)


def _paths(option: Csv) -> list[Path]:
    return files.existing(option.path, "data.path", TABLES)


def _rows(path: Path, option: Csv) -> Iterator[Row]:
    file, columns = str(path), None
    for number, cells in _cells(path, option):
        if columns is None:
            columns = _names(path, cells, option)
            if option.header:
                continue
        if len(cells) == len(columns):
            yield Row(file, number, dict(zip(columns, cells, strict=True)))
        else:
            detail = f"{len(cells)} cells where there are {len(columns)} columns"
            fault = BadRowError("not one cell for each column", detail)
            yield Row(file, number, fault)


def _header(path: Path, option: Csv) -> list[str]:
    for _, cells in _cells(path, option):
        return _names(path, cells, option)
    raise UserError(f"{path.name} is empty", where=f"in {path}")


def _names(path: Path, cells: list[str], option: Csv) -> list[str]:
    """What the columns are called; without a header by their positions."""
    if not option.header:
        return [str(number) for number in range(1, len(cells) + 1)]
    twice = next((cell for cell in cells if cell and cells.count(cell) > 1), None)
    if twice is not None:
        raise bad_row(
            str(path),
            1,
            f'two columns are called "{twice}"',
            "name each differently, or set data.header=false if the first line is no header",
        )
    return cells


def _cells(path: Path, option: Csv) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line, and cells, of each record; blank lines are passed over."""
    tabs = path.name.removesuffix(".gz").removesuffix(".zst").endswith(".tsv")
    delimiter = option.delimiter or ("\t" if tabs else ",")
    with files.opened(path) as stream:
        lines = _decoded(stream)
        if option.quoted:
            records = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            records = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        limit = csv.field_size_limit()
        while True:
            begun = records.line_num + 1
            # The limit is the interpreter's, not the reader's.
            csv.field_size_limit(LONGEST_CELL)
            try:
                cells = next(records, None)
            except csv.Error as error:
                raise bad_row(str(path), begun, *_explained(error, option)) from None
            finally:
                csv.field_size_limit(limit)
            if cells is None:
                return
            if cells:
                yield begun, cells


def _explained(error: csv.Error, option: Csv) -> tuple[str, str]:
    """What is wrong with a line, and what to do."""
    if not option.quoted:
        return str(error), "line ends may be those of old Macs"
    hint = "double it within quoted cells; if no cell is quoted, set data.quoted=false"
    text = str(error)
    if "expected after" in text:
        return "a quotation mark within a cell, or one that opens no cell", hint
    if "unexpected end" in text:
        return "a quotation mark that nothing closes", hint
    return text, "a quotation mark may be open, or line ends may be those of old Macs"


def _decoded(stream: Any) -> Iterator[str]:
    """Text lines; bytes that are not UTF-8 become half surrogates, which no text may hold."""
    for number, line in enumerate(stream):
        yield line.decode("utf-8-sig" if number == 0 else "utf-8", "surrogateescape")
