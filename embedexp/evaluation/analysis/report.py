"""What an analysis found: figures with their unit and settings, as JSON, a table and a picture."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedexp.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.table import Table

    Cell = str | int | float | None


@dataclass(frozen=True)
class Report:
    """The outcome of one analysis.

    `unit` names what was counted as one observation; `rows` are the printed figures under
    `columns`; `data` holds everything behind them, as JSON values; `notes` say what a reader has
    to know.
    """

    name: str
    title: str
    unit: str
    settings: Mapping[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    data: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def write(self, folder: Path) -> Path:
        """Write NAME.json into a folder; a reader sees the old file or the new one, whole."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        content = json.dumps(_plain(vars(self)), indent=2, ensure_ascii=False, allow_nan=False)
        write_atomically(path, content + "\n")
        return path


def read(folder: Path) -> list[Report]:
    """The reports in a folder, by name; damaged files are left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Report(**json.loads(path.read_text("utf-8"))))
        except (OSError, ValueError, TypeError):
            continue
    return found


def table(report: Report) -> Table:
    """The report's rows as a table, its unit and notes below."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    caption = "\n".join([f"unit: {report.unit}", *report.notes])
    found = Table(
        title=escape(report.title),
        caption=escape(caption),
        box=box.SIMPLE,
        title_justify="left",
        caption_justify="left",
    )
    for position, heading in enumerate(report.columns):
        if position:
            found.add_column(escape(heading), justify="right", no_wrap=True)
        else:
            found.add_column(escape(heading), overflow="fold")
    for row in report.rows:
        found.add_row(*(escape(spell(cell)) for cell in row))
    return found


def spell(cell: Cell) -> str:
    """A figure for people: four decimals, or two digits where it is smaller than that shows."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4f}" if cell == 0 or abs(cell) >= 1e-3 else f"{cell:.1e}"
    return str(cell)


def _plain(value: Any) -> Any:
    """JSON values; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
