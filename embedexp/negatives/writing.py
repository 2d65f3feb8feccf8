"""Mined negatives as Parquet: one file per shard, there whole or not at all, and a manifest."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.data.mined import FORMAT, MANIFEST
from embedexp.files import replacing, to_disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from .examples import Examples
    from .mining import Mined

FACTS = b"embedexp"  # key of the counts in a file's own metadata
ROWS = 8192  # turned into texts at a time


def shard_name(dataset: str, shard: int, shards: int) -> str:
    """The file of a shard: `name-00000-of-00004.parquet`."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in dataset)
    return f"{safe}-{shard:05d}-of-{shards:05d}.parquet"


def write_shard(path: Path, examples: Examples, mined: Mined) -> None:
    """Write the rows of some queries: their texts, positives, negatives and scores."""
    import pyarrow as pa

    string, texts, numbers = pa.string(), pa.list_(pa.string()), pa.list_(pa.float32())
    facts = {"considered": mined.considered, "refused": mined.refused}
    schema = pa.schema(
        {
            "dataset": string,
            "language": string,
            "query": string,
            "positives": texts,
            "positive_scores": numbers,
            "negatives": texts,
            "scores": numbers,
            "ranks": pa.list_(pa.int32()),
            "nearest": string,
            "nearest_score": pa.float32(),
        },
        metadata={FACTS: json.dumps(facts).encode()},
    )
    write_parquet(path, schema, _batches(examples, mined, schema))


def write_parquet(path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """A Parquet file that is there whole or not at all."""
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        to_disk(temporary)


def _batches(examples: Examples, mined: Mined, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    first = int(mined.query[0]) if len(mined.query) else 0
    documents = examples.documents
    for begin in range(0, len(mined.query), ROWS):
        rows = []
        for row in range(begin, min(len(mined.query), begin + ROWS)):
            query = int(mined.query[row])
            # Positives are kept for the mined queries only, which start at the first row's.
            right = mined.positives[query - first]
            scores = mined.positive_scores[query - first]
            if mined.positive[row] >= 0:
                own = right == mined.positive[row]
                right, scores = right[own], scores[own]
            there = mined.documents[row] >= 0
            nearest = int(mined.nearest[row])
            rows.append(
                {
                    "dataset": examples.name,
                    "language": examples.languages[query],
                    "query": examples.queries[query],
                    "positives": [documents[d] for d in right],
                    "positive_scores": scores.tolist(),
                    "negatives": [documents[d] for d in mined.documents[row][there]],
                    "scores": mined.scores[row][there].tolist(),
                    "ranks": mined.ranks[row][there].tolist(),
                    "nearest": documents[nearest] if nearest >= 0 else None,
                    "nearest_score": float(mined.nearest_scores[row]) if nearest >= 0 else None,
                }
            )
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def write_manifest(folder: Path, names: Sequence[str], *, complete: bool, **facts: Any) -> None:
    """Say which files there are, in order, with their content's hash, and whether that is all."""
    import pyarrow.parquet as pq

    files = []
    for name in names:
        with (folder / name).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        rows = pq.ParquetFile(folder / name).metadata.num_rows
        files.append({"name": name, "rows": rows, "sha256": digest})
    content = {"format": FORMAT, "complete": complete, **facts, "files": files}
    temporary = folder / f".{MANIFEST}.{os.getpid()}"
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    temporary.replace(folder / MANIFEST)


def read_facts(path: Path) -> dict[str, Any]:
    """What `write_shard` counted."""
    import pyarrow.parquet as pq

    content: dict[str, Any] = json.loads(pq.read_schema(path).metadata[FACTS])
    return content


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a shard, without all of them in memory."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(ROWS):
        yield from batch.to_pylist()


def seeds_of(queries: Sequence[str], seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A number for each query that depends on its text and the run's seed alone."""
    from embedexp.data.hashing import stable_hash

    numbers = (stable_hash("mine", str(seed), query) for query in queries)
    return np.fromiter(numbers, np.uint64, len(queries))
