"""`negatives=mined_file`: hard negatives by query, of a mining run, Parquet or JSON lines."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.data import mined
from embedexp.data.lines import bad_line, read_objects, text_problem

from .missing import NoNegativesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from embedexp.config.schema.negatives import MinedFile
    from embedexp.data import Dataset

log = logging.getLogger(__name__)

LEAST_SHARE = 0.01  # of the queries must have a line: below, it is another dataset's file
NAN = float("nan")


@dataclass
class Row:
    """Negatives of a query: for some of its positives, or (empty) for any."""

    positives: tuple[str, ...]
    positive_scores: tuple[float, ...]
    negatives: tuple[str, ...]
    scores: tuple[float, ...]


Table = dict[str, dict[str, list[Row]]]
"""Rows by dataset (empty: any) and query."""


def attach(option: MinedFile, dataset: Dataset) -> Dataset:
    """The first `count` mined negatives of each query that are none of its positives.

    Queries are matched by their text, and by the name of the dataset where the file has it (alone,
    or with that of its source in a mixture); those without a line have no hard negatives. Several
    lines of a query add up; where lines name positives, an example takes those of its own, if there
    are any. The teacher's scores are attached where the file has them.

    Raises:
        NoNegativesError: under 1 % of the dataset's queries are in the file.
        UserError: the file is missing or one of its lines is wrong.
    """
    files = mined.locate(option.path, "negatives.path")
    stats = [file.stat() for file in files]
    table = _read(tuple(files), tuple((stat.st_mtime_ns, stat.st_size) for stat in stats))
    rows = _rows_of(table, dataset.name)
    positives: dict[str, set[str]] = {}
    matched = 0
    for query, positive in zip(dataset.queries, dataset.positives, strict=True):
        positives.setdefault(query, set()).add(positive)
        matched += query in rows
    share = matched / max(1, len(dataset))
    if share < LEAST_SHARE:
        named = sorted(name for name in table if name)
        of = f", which has {', '.join(named)}" if named and dataset.name not in table else ""
        raise NoNegativesError(
            f"{share:.1%} of the queries of {dataset.name} are in {files[0].name}{of}",
            where=f"negatives.path={option.path}",
            hint="mine the negatives from this data: queries are matched by their exact text",
        )
    negatives, scores, scored = [], [], False
    for query, positive in zip(dataset.queries, dataset.positives, strict=True):
        row = _merged(rows.get(query, ()), positive, positives[query], option.count)
        negatives.append(list(row.negatives))
        scores.append([*row.positive_scores, *row.scores])
        scored = scored or bool(row.scores and row.scores[0] == row.scores[0])
    count = sum(map(len, negatives))
    log.info("%s: %.1f%% of the queries mined, %d negatives", dataset.name, 100 * share, count)
    return replace(dataset, negatives=negatives, teacher_scores=scores if scored else None)


def _rows_of(table: Table, name: str) -> dict[str, list[Row]]:
    """The rows of a dataset, whatever mixture it was mined in, or else those of any dataset.

    A mixture calls a dataset `source`, or `source/dataset` where the source has several: how many
    it has may differ between mining and training.
    """
    source, _, own = name.rpartition("/")
    mixed = bool(source) and any(known.startswith(f"{source}/") for known in table)
    for known in filter(None, (name, source, "" if mixed else own)):
        if known in table:
            return table[known]
    found: dict[str, list[Row]] = {}
    for known, rows in table.items():
        if name in known.rpartition("/")[::2]:
            for query, lines in rows.items():
                found.setdefault(query, []).extend(lines)
    return found or table.get("", {})


def _merged(rows: Sequence[Row], positive: str, right: set[str], count: int) -> Row:
    """The first `count` negatives of an example, without right answers and repetitions."""
    own = [row for row in rows if positive in row.positives] or rows
    chosen: dict[str, float] = {}
    score = NAN
    for row in own:
        if positive in row.positives:
            score = row.positive_scores[row.positives.index(positive)]
        for text, value in zip(row.negatives, row.scores, strict=True):
            if text not in right and len(chosen) < count:
                chosen.setdefault(text, value)
    return Row((positive,), (score,), tuple(chosen), tuple(chosen.values()))


@lru_cache(maxsize=1)  # for the other datasets of a mixture
def _read(files: tuple[Path, ...], stats: tuple[tuple[int, int], ...]) -> Table:
    """Rows in the order of the files."""
    del stats  # part of the cache's key
    table: Table = {}
    for file in files:
        rows = _parquet(file) if file.suffix == ".parquet" else _lines(file)
        for dataset, query, row in rows:
            table.setdefault(dataset, {}).setdefault(query, []).append(row)
    return table


def _lines(file: Path) -> Iterator[tuple[str, str, Row]]:
    """Lines `{"query": text, "negatives": [text, …]}`."""
    for number, line in read_objects(file):
        query, negatives = line.get("query"), line.get("negatives")
        if not isinstance(query, str) or not isinstance(negatives, list):
            there = ", ".join(line) or "none"
            problem = f'it needs "query" (text) and "negatives" (list of texts); fields: {there}'
            raise bad_line(file, number, problem)
        for text in negatives:
            if not isinstance(text, str) or not text.strip():
                raise bad_line(file, number, "a negative is not a text, or empty")
            if fault := text_problem(text):
                raise bad_line(file, number, f"a negative {fault}")
        yield "", query, Row((), (), tuple(negatives), (NAN,) * len(negatives))


def _parquet(file: Path) -> Iterator[tuple[str, str, Row]]:
    """Rows with the columns query and negatives, and what else stage=mine writes.

    Raises:
        UserError: it is damaged, or lacks a column or has one of another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, texts = pa.types.is_string, pa.types.is_list
    try:
        table = pq.ParquetFile(file)
        there = {field.name: field.type for field in table.schema_arrow}
        for name, fits in (("query", text), ("negatives", texts)):
            kind = there.get(name)
            if kind is None or not (fits(kind) or pa.types.is_large_string(kind)):
                raise UserError(
                    f"{file.name} has no column {name} of {'text' if fits is text else 'lists'}",
                    where=f"in {file}",
                    hint=f"its columns: {', '.join(there) or 'none'}",
                )
        for batch in table.iter_batches(4096):
            for row in batch.to_pylist():
                yield _row(row)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{file.name} is no Parquet file, or a damaged one", where=str(error)
        ) from None


def _row(row: dict[str, object]) -> tuple[str, str, Row]:
    def texts(name: str) -> tuple[str, ...]:
        value = row.get(name)
        return tuple(value) if isinstance(value, list) else ()

    def numbers(name: str, count: int) -> tuple[float, ...]:
        value = row.get(name)
        fits = isinstance(value, list) and len(value) == count
        return tuple(value) if fits else (NAN,) * count  # type: ignore[arg-type]

    negatives, positives = texts("negatives"), texts("positives")
    return (
        str(row.get("dataset") or ""),
        str(row["query"]),
        Row(
            positives,
            numbers("positive_scores", len(positives)),
            negatives,
            numbers("scores", len(negatives)),
        ),
    )
