"""Examples in a file of the cache, read as they are asked for: memory for millions of pairs.

A reader hands its rows to `ExampleStore.build` one by one and gets a `Dataset`. Whoever goes
through a column uses `batches`, which works for lists as well.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .cache import cached
from .progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from .dataset import Dataset, TextDataset

T = TypeVar("T")

FORMAT = 2  # raise when the file or its meaning changes: older ones are then made anew
BATCH = 8192  # rows of a record batch
SMALL = 20_000  # so many rows and fewer are kept as lists
FILE = "examples.arrow"


@dataclass(frozen=True)
class Example:
    """One row: a query and what belongs with it. `teacher_scores`: positive, then negatives."""

    query: str
    positive: str
    negatives: tuple[str, ...] = ()
    score: float | None = None
    group: str | None = None
    teacher_scores: tuple[float, ...] | None = None
    language: str | None = None


class Column(Sequence[T]):
    """A column of a file of examples, or some of its rows: a sequence that holds no values.

    `fingerprint` is a hash of the content, known without reading it.
    """

    def __init__(
        self,
        values: pa.ChunkedArray,
        fingerprint: str,
        rows: NDArray[np.int64] | None = None,
        head: int | None = None,
    ) -> None:
        import numpy as np  # not above: composing an experiment needs no arrays

        self._values, self._content = values, fingerprint
        self._rows, self._head = rows, head
        lengths = [len(chunk) for chunk in values.chunks]
        self._starts = np.cumsum([0, *lengths])[:-1]

    @property
    def fingerprint(self) -> str:
        """A hash of the content, and of which rows of it are meant."""
        digest = hashlib.sha256(f"{self._content}\0{self._head}\0".encode())
        if self._rows is not None:
            import numpy as np

            digest.update(np.ascontiguousarray(self._rows, "<i8").data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._values) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """A value, or a list of them."""
        if isinstance(index, slice):
            rows = range(*index.indices(len(self)))
            if self._rows is None and rows.step == 1:
                return self._cut(self._values.slice(rows.start, len(rows)).to_pylist())
            import numpy as np

            wanted = np.arange(rows.start, rows.stop, rows.step, dtype=np.int64)
            return self._take(wanted if self._rows is None else self._rows[wanted])
        row = range(len(self))[index]
        place = row if self._rows is None else int(self._rows[row])
        return self._cut([self._values[place].as_py()])[0]

    def __iter__(self) -> Iterator[T]:
        for batch in batches(self):
            yield from batch

    def select(self, rows: NDArray[np.int64]) -> Column[T]:
        """Some of the rows, in the order given."""
        import numpy as np

        chosen = np.asarray(rows, np.int64)
        if len(chosen) and not (-len(self) <= chosen.min() and chosen.max() < len(self)):
            raise IndexError("a row that is not there")
        chosen = np.where(chosen < 0, chosen + len(self), chosen)
        chosen = chosen if self._rows is None else self._rows[chosen]
        return Column(self._values, self._content, chosen, self._head)

    def heads(self, count: int) -> Column[T]:
        """The first `count` of the texts in each row of a column of lists."""
        least = count if self._head is None else min(count, self._head)
        return Column(self._values, self._content, self._rows, least)

    def _cut(self, values: list[Any]) -> list[T]:
        return values if self._head is None else [value[: self._head] for value in values]

    def _take(self, places: NDArray[np.int64]) -> list[T]:
        """Values at places in the file; chunk by chunk, as Arrow would join all of them first."""
        import numpy as np

        chunks = np.searchsorted(self._starts, places, side="right") - 1
        found: list[Any] = [None] * len(places)
        for number in np.unique(chunks):
            wanted = np.flatnonzero(chunks == number)
            inside = self._values.chunk(int(number)).take(places[wanted] - self._starts[number])
            for at, value in zip(wanted.tolist(), inside.to_pylist(), strict=True):
                found[at] = value
        return self._cut(found)


def batches(column: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """A column in lists of `size` values; of one in a file, only these are in memory."""
    step = size or BATCH
    for start in range(0, len(column), step):
        yield column[start : start + step]


def select(column: Sequence[T], rows: Sequence[int] | NDArray[np.int64]) -> Sequence[T]:
    """Some rows of a column, in the order given."""
    if isinstance(column, Column):
        import numpy as np

        return column.select(np.asarray(rows, np.int64))
    return [column[row] for row in rows]


def fingerprint(column: Sequence[Any] | None) -> str:
    """A hash of a column's content: known of one in a file, computed of a list."""
    if isinstance(column, Column):
        return column.fingerprint
    digest = hashlib.sha256(b"none" if column is None else f"{len(column)}".encode())
    for batch in batches(column or ()):
        digest.update(json.dumps(list(batch), default=float).encode())
    return digest.hexdigest()


def heads(column: Sequence[Sequence[T]], count: int) -> Sequence[Sequence[T]]:
    """The first `count` of the texts in each row (hard negatives); of a file, nothing is read."""
    if isinstance(column, Column):
        return column.heads(count)
    return [list(row[:count]) for row in column]


class ExampleStore:
    """Where the examples of a reader go, so that they need no memory."""

    @staticmethod
    def build(
        *,
        name: str,
        task: str,
        rows: Iterable[Example],
        cache_dir: str | Path | None,
        key: str,
        weight: float = 1.0,
        language: str = "",
        total: int | None = None,
    ) -> Dataset:
        """A dataset of the rows, memory-mapped from the cache; `rows` are not read if it is there.

        `key` says all that decides the rows: a hash of the source's content, and of the options it
        is read with. `rows` are taken one by one, and are in memory only up to `SMALL` of them.
        Without `cache_dir`, or when there are so few, the columns are lists and nothing is
        written. Columns that no row has are None; a list may be empty, but a score
        is there for every row or for none. `total` is for the progress bar.

        Raises:
            UserError: nothing can be written to the cache.
            ValueError: some rows have a score and others have none.
        """
        from .dataset import Dataset

        def filed(values: Iterable[Example]) -> Iterator[dict[str, list[Any]]]:
            with Progress("read", total, "examples") as progress:
                for batch in _grouped(values):
                    yield {column: [getattr(e, column) for e in batch] for column in _FIELDS}
                    progress.add(len(batch))

        columns = _columns(filed(rows), "examples", cache_dir, key)
        named: dict[str, Any] = {field: columns[column] for column, field in _FIELDS.items()}
        return Dataset(name, task, **named, weight=weight, language=language)

    @staticmethod
    def build_texts(
        *,
        name: str,
        texts: Iterable[str],
        cache_dir: str | Path | None,
        key: str,
        weight: float = 1.0,
        language: str = "",
        total: int | None = None,
    ) -> TextDataset:
        """The same for plain texts.

        Raises:
            UserError: nothing can be written to the cache.
        """
        from .dataset import TextDataset

        def filed(values: Iterable[str]) -> Iterator[dict[str, list[Any]]]:
            with Progress("read", total, "texts") as progress:
                for batch in _grouped(values, 1024):
                    yield {"text": batch}
                    progress.add(len(batch))

        column = _columns(filed(texts), "texts", cache_dir, key)["text"]
        return TextDataset(name, column if column is not None else [], weight, language)


_FIELDS = {
    "query": "queries",
    "positive": "positives",
    "negatives": "negatives",
    "score": "scores",
    "group": "groups",
    "teacher_scores": "teacher_scores",
    "language": "languages",
}


def _grouped(values: Iterable[T], size: int | None = None) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, size or BATCH)):
        yield batch


def _columns(
    parts: Iterator[dict[str, list[Any]]], kind: str, cache_dir: str | Path | None, key: str
) -> dict[str, Sequence[Any] | None]:
    """The columns of the batches: lists if they are small, else those of a file of the cache."""
    from .cache import whole
    from .example_file import opened, write

    folder_key = hashlib.sha256(f"{FORMAT}\0{key}".encode()).hexdigest()[:32]
    first: list[dict[str, list[Any]]] = []
    if cache_dir is not None:
        from pathlib import Path

        found = Path(cache_dir).expanduser() / kind / folder_key
        if (facts := whole(found)) is not None:
            return opened(found / FILE, facts)
    count = 0
    for part in parts:
        first.append(part)
        count += len(next(iter(part.values())))
        if count > SMALL and cache_dir is not None:
            break
    else:
        return _listed(first, kind)
    assert cache_dir is not None

    def build(folder: Path) -> dict[str, Any]:
        def every() -> Iterator[dict[str, list[Any]]]:
            while first:
                yield first.pop(0)
            yield from parts

        return write(folder / FILE, every(), kind)

    folder, facts = cached(cache_dir, kind, folder_key, build)
    return opened(folder / FILE, facts)


def _listed(parts: list[dict[str, list[Any]]], kind: str) -> dict[str, Sequence[Any] | None]:
    from .example_file import complete, filled, types

    columns: dict[str, Sequence[Any] | None] = {}
    for name in types(kind):
        values = [value for part in parts for value in part[name]]
        present = sum(value is not None and value != () for value in values)
        columns[name] = filled(name, values) if complete(name, present, len(values)) else None
    return columns
