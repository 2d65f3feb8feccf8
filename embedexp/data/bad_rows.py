"""What happens to rows that cannot be used: refused, or skipped, counted and told."""

from __future__ import annotations

import logging
from array import array
from pathlib import PurePath
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .rows import BadRowError, bad_row

if TYPE_CHECKING:
    from embedexp.config.schema.data import Rows

    from .rows import Row

log = logging.getLogger(__name__)

TOLD = 5  # places named for each reason
REPEATED = "repeated"
DROPPED = "empty, repeated, or a positive of the query"
HOPELESS = 1000  # when so many rows at the start are all bad, the rest is not read


def repeated() -> BadRowError:
    """A row that says what an earlier one says."""
    return BadRowError(REPEATED, "says what an earlier one says")


class BadRows:
    """Counts rows, and the bad ones by reason, with the places of the first."""

    def __init__(self, option: Rows, name: str, unit: str) -> None:
        self.option, self.name, self.unit = option, name, unit
        self.rows = 0
        self.skipped: dict[str, int] = {}
        self.places: dict[str, list[tuple[str, int]]] = {}
        self.files: set[str] = set()  # in which a bad row was met
        self.bad = 0

    def add(self, row: Row, fault: BadRowError) -> None:
        """A row that is bad.

        Raises:
            UserError: `bad_rows=refuse`, or no row at all has been good so far.
        """
        if self.option.bad_rows == "refuse":
            raise bad_row(row.file, row.number, fault.detail, fault.hint, self.unit)
        self._count(fault.reason, row)
        self.bad += fault.reason != REPEATED
        if self.bad == self.rows == HOPELESS:
            raise self._too_many()

    def drop(self, row: Row) -> None:
        """A hard negative of a good row that is left out."""
        self._count(DROPPED, row)

    def close(self) -> list[str]:
        """What was skipped, in one line a reason.

        Raises:
            UserError: more than `max_bad_share` of the rows are bad.
        """
        if self.bad > self.option.max_bad_share * self.rows:
            raise self._too_many()
        return [f"{self.name}: {each}" for each in self._reasons()]

    def _count(self, what: str, row: Row) -> None:
        self.skipped[what] = self.skipped.get(what, 0) + 1
        places = self.places.setdefault(what, [])
        if len(places) < TOLD:
            file = PurePath(row.file).name
            self.files.add(file)
            places.append((file, row.number))

    def _reasons(self) -> list[str]:
        """Such as `3 rows skipped: empty text (lines 3, 6, 9)`."""
        return [
            f"{count:,} {_plural('hard negative' if what == DROPPED else 'row', count)} skipped: "
            f"{what} ({self._where(what)})"
            for what, count in self.skipped.items()
        ]

    def _where(self, what: str) -> str:
        """`lines 3, 6, …`; with the files' names where there are several."""
        places = self.places[what]
        more = ", …" if self.skipped[what] > len(places) else ""
        if len(self.files) < 2:
            listed = ", ".join(f"{number:,}" for _, number in places)
            return f"{_plural(self.unit, len(places))} {listed}{more}"
        return ", ".join(f"{file} {self.unit} {number:,}" for file, number in places) + more

    def _too_many(self) -> UserError:
        return UserError(
            f"{self.bad:,} of {self.rows:,} rows of {self.name} cannot be used, more than "
            f"data.max_bad_share={self.option.max_bad_share:g}",
            where="; ".join(self._reasons()),
            hint="mend them, or allow more with data.max_bad_share; "
            "data.bad_rows=refuse stops at the first",
        )


class Seen:
    """A set of 64-bit hashes in 12 to 24 bytes each, where Python's would take 80."""

    def __init__(self) -> None:
        self._table, self._mask, self._count = _empty(1024), 1023, 0

    def add(self, value: int) -> bool:
        """Whether it is new; 0 and 1 count as one."""
        value = value or 1
        place = self._find(value)
        if self._table[place]:
            return False
        self._table[place] = value
        self._count += 1
        if 3 * self._count > 2 * len(self._table):
            self._grow()
        return True

    def __len__(self) -> int:
        return self._count

    def _find(self, value: int) -> int:
        table, mask = self._table, self._mask
        place = value & mask
        while table[place] and table[place] != value:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        old = self._table
        self._table = _empty(2 * len(old))
        self._mask = len(self._table) - 1
        for value in old:
            if value:
                self._table[self._find(value)] = value


def _empty(size: int) -> array[int]:
    return array("Q", bytes(8 * size))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
