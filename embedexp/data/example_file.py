"""The Arrow file of `columns.ExampleStore`: batches of rows in, memory-mapped columns out."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .columns import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

# Columns hold at most 2 GiB of text with `string`, in one record batch; these have no such limit.
TEXT = pa.large_string()
TYPES: dict[str, dict[str, pa.DataType]] = {
    "examples": {
        "query": TEXT,
        "positive": TEXT,
        "negatives": pa.list_(TEXT),
        "score": pa.float64(),
        "group": TEXT,
        "teacher_scores": pa.list_(pa.float32()),
        "language": TEXT,
    },
    "texts": {"text": TEXT},
}
ALWAYS = {"query", "positive", "text"}


def types(kind: str) -> dict[str, pa.DataType]:
    """The columns of a kind of file."""
    return TYPES[kind]


def complete(name: str, present: int, total: int) -> bool:
    """Whether a column is kept, of which so many rows have a value.

    Raises:
        ValueError: some rows have a score and others have none.
    """
    if name == "score" and 0 < present < total:
        raise ValueError(f"{present} of {total} rows have a score: all must, or none")
    return name in ALWAYS or present > 0


def filled(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Values as they are kept: where a list is missing, it is empty."""
    if name in ("negatives", "teacher_scores"):
        return [list(value) if value else [] for value in values]
    return values


def write(path: Path, parts: Iterator[dict[str, list[Any]]], kind: str) -> dict[str, Any]:
    """Write batches as they come; facts: rows, rows with a value by column, SHA-256 of all rows."""
    schema = pa.schema(list(types(kind).items()))
    digest, count = hashlib.sha256(), 0
    present = dict.fromkeys(types(kind), 0)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for part in parts:
            arrays = []
            for name, type_ in types(kind).items():
                present[name] += sum(map(_given, part[name]))
                arrays.append(pa.array(filled(name, part[name]), type_))
            batch = pa.record_batch(arrays, schema=schema)
            digest.update(batch.serialize())
            writer.write_batch(batch)
            count += len(batch)
    for name, number in present.items():
        complete(name, number, count)
    return {"rows": count, "present": present, "sha256": digest.hexdigest()}


def opened(path: Path, facts: dict[str, Any]) -> dict[str, Sequence[Any] | None]:
    """The columns of a file, memory-mapped; None for those that no row has."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return {
        name: Column(table.column(name), f"{facts['sha256']} {name}")
        if complete(name, number, facts["rows"])
        else None
        for name, number in facts["present"].items()
    }


def _given(value: Any) -> bool:
    return value is not None and value != () and value != []
