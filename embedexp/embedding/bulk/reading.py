"""Texts from a file or from standard input, one at a time."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest
from embedexp.data.csv import LONGEST_CELL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN = "-"
ENDINGS = (".txt", ".jsonl", ".csv", ".parquet")


def check(source: str, column: str | None) -> None:
    """Whether a source can be read, as far as can be told without reading it.

    Raises:
        UserError: it is missing, of another kind, or needs a column.
    """
    if source == STDIN:
        return
    path = Path(source).expanduser()
    if not path.is_file():
        raise UserError(f"no file {source}", hint="name a file of texts, or - for standard input")
    if path.suffix not in ENDINGS:
        raise UserError(f"{source} is of no known kind", hint=f"known: {', '.join(ENDINGS)}")
    if path.suffix == ".txt" and column is not None:
        raise UserError(f"{source} has no columns", hint="leave --column out")
    if path.suffix != ".txt" and column is None:
        raise UserError(f"which column of {source} holds the texts?", hint="name it: --column NAME")


def texts(source: str, column: str | None) -> Iterator[str]:
    """The texts of a source, in its order; lines of standard input, or JSON lines with a column.

    Raises:
        UserError: a line or row is not what it should be; names it.
    """
    if source == STDIN:
        lines = sys.stdin.buffer
        return _plain(lines, "stdin") if column is None else _objects(lines, "stdin", column)
    path = Path(source).expanduser()
    if path.suffix == ".txt":
        return _file(path, None)
    if path.suffix == ".jsonl":
        return _file(path, column)
    assert column is not None
    return _csv(path, column) if path.suffix == ".csv" else _parquet(path, column)


def count(source: str) -> int | None:
    """How many texts a source has, where that costs little; None elsewhere."""
    path = Path(source).expanduser()
    if source == STDIN or path.suffix == ".csv":
        return None
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(1 for line in file if path.suffix == ".txt" or line.strip())


def _file(path: Path, column: str | None) -> Iterator[str]:
    with path.open("rb") as lines:
        yield from (
            _plain(lines, str(path)) if column is None else _objects(lines, str(path), column)
        )


def _plain(lines: Iterable[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield _decoded(line, name, number).rstrip("\r\n")


def _objects(lines: Iterable[bytes], name: str, column: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        content = _decoded(line, name, number)
        if not content.strip():
            continue
        try:
            row = json.loads(content)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UserError("this line is not a JSON object", where=f"{name}:{number}")
        yield _cell(row, column, f"{name}:{number}")


def _csv(path: Path, column: str) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(_records(csv.DictReader(file)), start=1):
                yield _cell(row, column, f"{path}, row {number}")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8", hint="convert it: iconv -t UTF-8") from None
    except csv.Error as error:
        raise UserError(
            f"{path} is no readable CSV: {error}", hint="a quotation mark may be open"
        ) from None


def _records(reader: csv.DictReader[str]) -> Iterator[dict[str, Any]]:
    """Rows with cells of any usual length; the limit is the interpreter's, not the reader's."""
    limit = csv.field_size_limit()
    while True:
        csv.field_size_limit(LONGEST_CELL)
        try:
            row = next(reader, None)
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield row


def _parquet(path: Path, column: str) -> Iterator[str]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    _known(column, file.schema_arrow.names, str(path))
    number = 0
    for batch in file.iter_batches(batch_size=10_000, columns=[column]):
        for value in batch.column(0).to_pylist():
            number += 1
            yield _text(value, column, f"{path}, row {number}")


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise UserError("this line is not UTF-8", where=f"{name}:{number}") from None


def _cell(row: dict[str, Any], column: str, where: str) -> str:
    _known(column, list(row), where)
    return _text(row[column], column, where)


def _known(column: str, columns: list[str], where: str) -> None:
    if column not in columns:
        near = nearest(column, columns)
        raise UserError(
            f"there is no column {column}",
            where=where,
            hint=f"did you mean {near}?" if near else f"columns: {', '.join(map(str, columns))}",
        )


def _text(value: object, column: str, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{column} is {type(value).__name__}, not a text", where=where)
    return value
