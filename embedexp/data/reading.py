"""From the rows of any format, in any shape, to the datasets of a corpus."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import shapes
from .bad_rows import BadRows, Seen, repeated
from .columns import ExampleStore, select
from .dataset import Corpus
from .hashing import stable_hash
from .holdout import hold_out
from .mapping import MissingColumnError, Names, patterns_optional, resolve, wanted
from .rows import BadRowError, Row, bad_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from embedexp.config.schema.data import Columns, MappedRows, Rows

    from .columns import Example
    from .rows import Reader

log = logging.getLogger(__name__)

FORMAT = 2  # raise when the same rows become other examples: what the cache holds is then renewed


def load(
    option: MappedRows, reader: Reader, fingerprint: str, cache_dir: str | Path | None
) -> Corpus:
    """The examples of a reader's rows as the option maps them, or their plain texts.

    Rows are read one by one. Large data are read once and then found in the cache.

    Raises:
        UserError: a column is missing, rows are bad where the option refuses them, too many are,
            or none is left.
    """
    return read(option, reader, fingerprint, cache_dir, option.columns, option.task)


def read(
    option: Rows,
    reader: Reader,
    fingerprint: str,
    cache_dir: str | Path | None,
    columns: Columns,
    task: str,
) -> Corpus:
    """The same for rows whose columns and task the format says."""
    kept = {"bad_rows", "max_bad_share", "max_characters"}
    rules = [columns.model_dump(), option.model_dump(include=kept)]
    content = json.dumps([FORMAT, fingerprint, reader.name, task, rules, _reading(option)])
    key = hashlib.sha256(content.encode()).hexdigest()
    reading = _Reading(option, reader, columns, task)
    place: dict[str, Any] = {"name": reader.name, "cache_dir": cache_dir, "key": key}
    place["total"] = reader.total
    if columns.text is not None:
        texts = ExampleStore.build_texts(texts=reading.texts(), **place)
        reading.tell(cache_dir, key)
        count = min(len(texts), option.max_examples or len(texts))
        texts = replace(texts, texts=select(texts.texts, range(count)))
        return Corpus((), fingerprint=fingerprint, texts=(texts,))
    whole = ExampleStore.build(task=task, rows=reading.examples(), **place)
    reading.tell(cache_dir, key)
    train, heldout = hold_out(whole, option.holdout, option.max_examples)
    return Corpus((train,), heldout, fingerprint)


def _reading(option: Rows) -> list[Any]:
    """What else decides how the bytes of a file become rows."""
    return [getattr(option, name, None) for name in ("delimiter", "header", "quoted")]


class _Reading:
    """One pass over the rows."""

    def __init__(self, option: Rows, reader: Reader, columns: Columns, task: str) -> None:
        if columns.text is None and columns.label is None:
            if task == "sts" and columns.score is None:
                raise UserError(
                    "data.task=sts, but data.columns.score names no field",
                    hint="set data.columns.score=FIELD",
                )
            if task != "sts":  # grades are of no use elsewhere, which the checks of the config say
                columns = columns.model_copy(update={"score": None})
        self.reader, self.columns, self.task = reader, columns, task
        self.cells = shapes.Cells(option.max_characters, all_text=reader.all_text)
        self.bad = BadRows(option, reader.name, reader.unit)
        self.seen = Seen()
        self.row = Row("", 0, {})
        self.lines: list[str] | None = None  # what was skipped, once all rows are read
        self._there: Sequence[str] | None = None
        self._names: Names | None = None

    def examples(self) -> Iterator[Example]:
        """The examples of all good rows, none of them twice."""
        shape = self._shape()
        count = 0
        for row, names in self._rows():
            fresh = []
            try:
                for example in shape(row.fields, names):
                    if self.seen.add(stable_hash("pair", example.query, example.positive)):
                        fresh.append(example)
                    else:
                        self._repeated()
            except BadRowError as fault:
                self.bad.add(row, fault)
                continue
            count += len(fresh)
            yield from fresh
        self._close(count, "pair of texts")

    def texts(self) -> Iterator[str]:
        """The texts of all good rows, none of them twice."""
        count = 0
        for row, names in self._rows():
            try:
                text = shapes.plain_text(self.cells, row.fields, names)
                if not self.seen.add(stable_hash("text", text)):
                    self._repeated()
                    continue
            except BadRowError as fault:
                self.bad.add(row, fault)
                continue
            count += 1
            yield text
        self._close(count, "text")

    def tell(self, cache_dir: str | Path | None, key: str) -> None:
        """Log what was skipped, now or when the data were read into the cache."""
        file = Path(cache_dir).expanduser() / "bad_rows" / f"{key[:32]}.json" if cache_dir else None
        if self.lines is None and file is not None and file.is_file():
            self.lines = json.loads(file.read_text(encoding="utf-8"))
        elif self.lines and file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_suffix(f".{os.getpid()}")
            fresh.write_text(json.dumps(self.lines), encoding="utf-8")
            fresh.replace(file)
        for line in self.lines or ():
            log.warning("%s", line)

    def _shape(self) -> Callable[[Any, Names], Iterator[Example]]:
        if self.columns.label is None:
            return shapes.Pairs(self.cells, graded=self.task == "sts", drop=self._dropped)
        if self.task == "clustering":
            return shapes.Clusters(self.cells, self.seen)
        return shapes.Classes(self.cells)

    def _dropped(self) -> None:
        self.bad.drop(self.row)

    def _repeated(self) -> None:
        self.bad.add(self.row, repeated())

    def _rows(self) -> Iterator[tuple[Any, Names]]:
        """The rows that can be read, each with the names of its columns."""
        if self.reader.columns is not None:
            try:
                resolve(self.columns, self.reader.columns)
            except MissingColumnError as fault:
                raise UserError(
                    f"{self.reader.name}: {fault.detail}", hint=fault.hint or "mend data.columns"
                ) from None
        for row in self.reader.rows(lambda there: wanted(self.columns, there)):
            self.row = row
            self.bad.rows += 1
            try:
                if isinstance(row.fields, BadRowError):
                    raise row.fields
                yield row, self._names_of(row)
            except BadRowError as fault:
                self.bad.add(row, fault)

    def _names_of(self, row: Row) -> Names:
        """The names in a row; those of the row before, where both have the same columns.

        Where the first row lacks a column, the config is wrong and not the row.
        """
        assert isinstance(row.fields, dict)
        there = tuple(row.fields)
        if there == self._there and self._names is not None:
            return self._names
        try:
            names = resolve(self.columns, there)
        except MissingColumnError as fault:
            if self._names is not None:  # where only later rows lack it, the data is wrong
                raise BadRowError(fault.reason, fault.detail) from None
            raise bad_row(
                row.file, row.number, fault.detail, fault.hint, self.reader.unit
            ) from None
        if self._names is None:
            self.columns = patterns_optional(self.columns)
        self._there, self._names = there, names
        return names

    def _close(self, count: int, what: str) -> None:
        self.lines = self.bad.close()
        if not count:
            where = "; ".join(self.lines) or (f"in {self.row.file}" if self.row.file else None)
            raise UserError(f"{self.reader.name} has no {what}", where=where)
