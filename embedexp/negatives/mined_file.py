"""`negatives=mined_file`: hard negatives by query, from JSON lines."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from embedexp.data.lines import bad_line, existing, read_objects, text_problem

from .missing import NoNegativesError

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.negatives import MinedFile
    from embedexp.data import Dataset

log = logging.getLogger(__name__)

LEAST_SHARE = 0.01  # of the queries must have a line: below, it is another dataset's file


def attach(option: MinedFile, dataset: Dataset) -> Dataset:
    """The first `count` mined negatives of each query that are none of its positives.

    A line is `{"query": text, "negatives": [text, …]}`; several lines of a query add up. Queries
    are matched by their text, and those without a line have no hard negatives.

    Raises:
        NoNegativesError: under 1 % of the dataset's queries are in the file.
        UserError: the file is missing or one of its lines is wrong.
    """
    file = existing(option.path, "negatives.path")
    stat = file.stat()
    mined = _read(file, stat.st_mtime_ns, stat.st_size)
    positives: dict[str, set[str]] = {}
    for query, positive in zip(dataset.queries, dataset.positives, strict=True):
        positives.setdefault(query, set()).add(positive)
    matched = sum(query in mined for query in dataset.queries) / max(1, len(dataset))
    if matched < LEAST_SHARE:
        raise NoNegativesError(
            f"{matched:.1%} of the queries of {dataset.name} are in {file.name}",
            where=f"negatives.path={option.path}",
            hint="mine the negatives from this data: queries are matched by their exact text",
        )
    negatives = [
        [text for text in mined.get(query, ()) if text not in positives[query]][: option.count]
        for query in dataset.queries
    ]
    count = sum(map(len, negatives))
    log.info("%s: %.1f%% of the queries mined, %d negatives", dataset.name, 100 * matched, count)
    return replace(dataset, negatives=negatives)


@lru_cache(maxsize=1)  # for the other datasets of a mixture
def _read(file: Path, modified: int, size: int) -> dict[str, list[str]]:
    """Negatives by query, in the file's order and without repetitions."""
    del modified, size  # part of the cache's key
    mined: dict[str, dict[str, None]] = {}
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
            mined.setdefault(query, {})[text] = None
    return {query: list(texts) for query, texts in mined.items()}
