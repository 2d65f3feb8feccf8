"""Rows as a reader finds them: where each stands, and what its columns hold."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    Wanted = Callable[[Sequence[str]], Collection[str]]


class BadRowError(Exception):
    """A row that cannot be used: the kind of reason, in words for many rows, and the details."""

    def __init__(self, reason: str, detail: str, hint: str | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.hint = reason, detail, hint


class Row(NamedTuple):
    """A row of a file, or the reason why there is none; `number` counts from 1."""

    file: str
    number: int
    fields: dict[str, Any] | BadRowError


class Reader(NamedTuple):
    """A source of rows.

    `columns` are the names of its columns, or None where only the rows tell. `rows` reads them; it
    may leave out columns that are not among those wanted of the ones in a file (None: all are).
    `unit` is what the numbers of the rows count: lines or rows. Where `all_text`, numbers are
    written as text.
    """

    name: str
    rows: Callable[[Wanted | None], Iterator[Row]]
    columns: Sequence[str] | None = None
    unit: str = "line"
    all_text: bool = False
    total: int | None = None


def bad_row(
    file: str, number: int, problem: str, hint: str | None = None, unit: str = "line"
) -> UserError:
    """The error for a row that cannot be used."""
    name = PurePath(file).name
    return UserError(f"{name}, {unit} {number}: {problem}", where=f"in {file}", hint=hint)


def text_problem(text: str) -> tuple[str, str] | None:
    """What makes a text unusable, if anything does: for many texts, and for one."""
    if "\0" in text:
        return "NUL character", "has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if 0xDC80 <= ord(text[error.start]) <= 0xDCFF:  # where a reader met a byte that is no text
            return "not UTF-8", "is not UTF-8"
        return "not UTF-8", "has half of a surrogate pair, which is not Unicode text"
    return None
