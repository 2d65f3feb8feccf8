"""`data=parquet`: the user's own examples, rows of Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import files, reading
from .rows import Reader, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.config.schema.data import Parquet

    from .dataset import Corpus
    from .rows import Wanted

PARQUET = files.Format(
    (".parquet", ".pq"), "a Parquet file", "data=parquet reads .parquet; others are jsonl and csv"
)
BATCH = 1024  # rows turned into Python's values at a time


def load(option: Parquet, cache_dir: str | Path | None = None) -> Corpus:
    """The examples of the files' rows, some of them held out; only named columns are read.

    Raises:
        UserError: a file is missing or damaged, a column is, or rows are bad; see `reading.load`.
    """
    return reading.load(option, reader(option), fingerprint(option), cache_dir)


def reader(option: Parquet) -> Reader:
    """The rows, numbered from 1 in each file."""
    paths = _paths(option)
    first = _opened(paths[0])

    def rows(wanted: Wanted | None) -> Iterator[Row]:
        for path in paths:
            file = _opened(path)
            there = file.schema_arrow.names
            kept = there if wanted is None else wanted(there)
            names = [name for name in there if name in kept]
            number, name = 0, str(path)
            try:
                for batch in file.iter_batches(BATCH, columns=names):
                    for fields in fields_of(batch):
                        number += 1
                        yield Row(name, number, fields)
            except OSError as error:
                raise _damaged(path, error) from None

    columns = first.schema_arrow.names
    total = first.metadata.num_rows if len(paths) == 1 else None
    return Reader(files.title(option.path, PARQUET), rows, columns, unit="row", total=total)


def fingerprint(option: Parquet) -> str:
    """SHA-256 of the files' bytes."""
    return files.fingerprint(_paths(option))


def describe(option: Parquet) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; which of its rows are examples would need reading."""
    _paths(option)
    return [(files.title(option.path, PARQUET), option.task, None)]


def column_names(option: Parquet) -> list[str] | None:
    """The columns of the first file."""
    return list(_opened(_paths(option)[0]).schema_arrow.names)


def fields_of(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow batch or table, column by name.

    Where a text is not UTF-8, its bytes become half surrogates, which no text may hold.
    """
    names = batch.schema.names
    columns = [_values(batch.column(place)) for place in range(len(names))]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value(scalar) for scalar in column]
    return values


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        if hasattr(scalar, "as_buffer"):
            return scalar.as_buffer().to_pybytes().decode("utf-8", "surrogateescape")
        return [_value(each) for each in scalar.values]


def _paths(option: Parquet) -> list[Path]:
    return files.existing(option.path, "data.path", PARQUET)


def _opened(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return UserError(
        f"{path.name} cannot be read as Parquet ({first})",
        where=f"in {path}",
        hint="copy or download it again",
    )
