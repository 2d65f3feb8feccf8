"""How the cells' configs differ: one row a cell, one column a key that is not the same in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.difference import differences

from .tables import Cell, Grid, plain_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .lines import Line

MOST = 40
"""Keys in the table; runs of different stages differ in hundreds."""
_OF_THE_SEED = "seed"


def table(lines: Sequence[Line]) -> tuple[Grid | None, str]:
    """The table, None for a single cell, and what it leaves out in words."""
    first, *others = lines
    base: dict[str, str] = {}
    changed: dict[str, dict[str, str]] = {}
    for line in others:
        counted, _ = differences(first.first.config, line.first.config)
        for key, mine, theirs in counted:
            if key != _OF_THE_SEED:
                base.setdefault(key, mine)
                changed.setdefault(line.full_name, {})[key] = theirs
    if not base:
        return None, "The configs of the cells differ in nothing that changes a result."
    keys = list(base)[:MOST]
    rows = [[first.full_name, *(base[key] for key in keys)]]
    for line in others:
        own = changed.get(line.full_name, {})
        rows.append([line.full_name, *(own.get(key, base[key]) for key in keys)])
    found = plain_grid("Config keys in which cells differ", ["cell", *keys], rows)
    for row in found.rows[1:]:
        row[1:] = [
            Cell(cell.text, kind="changed" if cell.text != base[key] else "")
            for key, cell in zip(keys, row[1:], strict=True)
        ]
    told = "Bold values differ from the first cell's. Keys that all cells share are left out."
    if len(base) > MOST:
        told += f" So are {len(base) - MOST} more keys: python -m embedexp diff RUN RUN has all."
    return found, told
