"""Filtered pairs as Parquet, which `data=parquet` reads, with what was dropped beside them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .writing import FACTS, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from embedexp.data import Dataset

    from .filtering import Filtered

ROWS = 8192


def filtered_name(dataset: Dataset) -> str:
    """The file of a dataset's kept pairs."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in dataset.name)
    return f"{safe}.parquet"


def dropped_path(path: Path) -> Path:
    """The file of the pairs that were dropped, in a folder below that of the kept ones."""
    return path.parent / "dropped" / path.name


def is_whole(path: Path) -> bool:
    """Whether a dataset is done: its kept pairs are written last."""
    return path.is_file() and dropped_path(path).is_file()


def write_filtered(
    path: Path, dataset: Dataset, result: Filtered, top_k: int | None, min_score: float | None
) -> None:
    """Write the pairs that were dropped, then those that were kept.

    Columns: query, positive, negatives, group and language where the dataset has them; rank (from
    0) and score are the teacher's.
    """
    import numpy as np
    import pyarrow as pa

    spoken = languages(dataset)
    fields: dict[str, Any] = {"query": pa.string(), "positive": pa.string()}
    if dataset.negatives is not None:
        fields["negatives"] = pa.list_(pa.string())
    if dataset.groups is not None:
        fields["group"] = pa.string()
    fields |= {"language": pa.string(), "rank": pa.int64(), "score": pa.float32()}
    every = np.array([spoken[0]] if len(spoken) == 1 else spoken)
    parts = [(code, np.broadcast_to(every == code, len(dataset))) for code in np.unique(every)]
    facts = {
        "dataset": dataset.name,
        "task": dataset.task,
        "parts": [
            {"language": str(code), **_counts(result.keep[rows], result.ranks[rows], top_k)}
            for code, rows in parts
        ],
        **_counts(result.keep, result.ranks, top_k),
        "top_k": top_k,
        "min_score": min_score,
    }
    schema = pa.schema(fields, metadata={FACTS: json.dumps(facts).encode()})
    for to, chosen in ((dropped_path(path), ~result.keep), (path, result.keep)):
        write_parquet(to, schema, _batches(dataset, result, np.flatnonzero(chosen), schema))


def languages(dataset: Dataset) -> list[str]:
    """Of each pair, empty where it is unknown; of a dataset that has one language, once."""
    if dataset.languages is None:
        return [dataset.language]
    return [code or "" for code in dataset.languages]


def _counts(keep: NDArray[np.bool_], ranks: NDArray[np.int64], top_k: int | None) -> dict[str, int]:
    """Pairs, and what became of them."""
    by_rank = 0 if top_k is None else int((ranks >= top_k).sum())
    kept = int(keep.sum())
    return {
        "pairs": len(keep), "kept": kept, "by_rank": by_rank, "by_score": len(keep) - by_rank - kept
    }  # fmt: skip


def _batches(
    dataset: Dataset, result: Filtered, rows: NDArray[np.int64], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for begin in range(0, len(rows), ROWS):
        part = rows[begin : begin + ROWS]
        some = dataset.select(part)
        spoken = languages(some)
        columns: dict[str, Any] = {
            "query": list(some.queries),
            "positive": list(some.positives),
            "language": spoken if len(spoken) == len(part) else spoken * len(part),
            "rank": result.ranks[part],
            "score": result.scores[part].astype("float32"),
        }
        if some.negatives is not None:
            columns["negatives"] = [list(row) for row in some.negatives]
        if some.groups is not None:
            columns["group"] = list(some.groups)
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
