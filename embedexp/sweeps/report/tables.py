"""Tables of the page: cells with what they are, headings over one or several columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..formats import MARKS, NONE, beside, heading, number, ours, verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..table import Table

SIGNS = {
    "reproduced": "✓",
    "contradicted": "✗",
    "undecided": "?",
    "no claim": "·",
    "not measured": NONE,
}


@dataclass(frozen=True)
class Cell:
    """A text of a table; `kind` is its look (number, missing, changed, verdict-...)."""

    text: str
    kind: str = ""
    href: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading over `columns` columns and `rows` rows of headings; `kind` is its look."""

    text: str
    columns: int = 1
    rows: int = 1
    kind: str = ""


@dataclass
class Grid:
    """A table: rows of headings, then rows of cells, the first of which names its row."""

    caption: str
    headings: list[list[Heading]]
    rows: list[list[Cell]]


def plain_grid(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Grid:
    """A table with a single row of headings; cells are texts."""
    return Grid(
        caption,
        [[Heading(text) for text in headings]],
        [[Cell(text) for text in row] for row in rows],
    )


def main(table: Table) -> Grid:
    """Ours beside the published figures, as the sweep's table in other formats."""
    top, below = [Heading("")], []
    known = {
        place: any(
            entry is not None and entry.published is not None
            for entry in (table.entries.get((row, *place)) for row in table.rows)
        )
        for place in table.headings
    }
    for place in table.headings:
        parts = ["ours", *(beside(table) if known[place] else [])]
        alone = not any(known.values())
        top.append(Heading(heading(*place, table), len(parts), kind="number" if alone else ""))
        below += [Heading(part, kind="number") for part in parts]
    top[0] = Heading("", rows=2 if any(known.values()) else 1)
    signed = table.relative_to is not None
    rows = []
    for row in table.rows:
        cells = [Cell(row)]
        for place in table.headings:
            entry = table.entries.get((row, *place))
            missing = entry is not None and bool(entry.missing)
            cells.append(Cell(ours(entry, table), "number missing" if missing else "number"))
            if known[place]:
                published = entry.published if entry else None
                cells.append(Cell(number(published, signed=signed), "number"))
                if table.comparable:
                    difference = entry.difference if entry else None
                    cells.append(Cell(number(difference, signed=True), "number"))
        rows.append(cells)
    return Grid(table.title, [top, below] if any(known.values()) else [top], rows)


_VERDICT = 6  # the column of verdicts() that comes second on a page, where a phone shows it


def comparisons(table: Table) -> Grid:
    """The comparisons, their verdict right after what is compared."""
    headings, rows = verdicts(table)

    def turned(texts: list[str]) -> list[str]:
        return [texts[0], texts[_VERDICT], *texts[1:_VERDICT], *texts[_VERDICT + 1 :]]

    found = plain_grid("Comparisons", turned(headings), [turned(row) for row in rows])
    found.headings[0][3:7] = [Heading(one.text, kind="number") for one in found.headings[0][3:7]]
    for row, one in zip(found.rows, table.comparisons, strict=True):
        kind = one.verdict.replace(" ", "-")
        row[1] = Cell(f"{SIGNS[one.verdict]} {MARKS[one.verdict]}", f"verdict {kind}")
        row[3:7] = [Cell(cell.text, "number") for cell in row[3:7]]
    return found
