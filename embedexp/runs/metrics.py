"""`metrics.jsonl`: one JSON object a line, appended as training goes, never doubled by a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from embedexp.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

# JSON has no word for these; as strings the file stays readable by every JSON parser.
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class Metrics:
    """The metrics file of one run: append while running, read at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mended = False

    def append(self, values: Mapping[str, Any]) -> None:
        """Write one line and hand it to the system at once.

        Values are numbers (also of numpy or torch, with one element), strings, and dicts and lists
        of them. Numbers that are not finite are written as "NaN", "Infinity", "-Infinity".
        """
        line = json.dumps(_to_json(values), allow_nan=False)
        if not self._mended:
            self._cut_torn_line()
            self._mended = True
        # Opened anew each time: a file held open would outlive `truncate` and an abandoned run.
        with self.path.open("ab") as file:
            file.write(line.encode() + b"\n")

    def read(self) -> list[dict[str, Any]]:
        """All complete lines; a last line torn by a crash, or any other broken one, is left out."""
        return [values for _, values in self._lines()]

    def truncate(self, step: int) -> None:
        """Drop the lines after optimizer step `step`, so that a resume from there doubles none.

        Lines without a "step" are kept.
        """
        kept = [line for line, values in self._lines() if values.get("step", step) <= step]
        if self.path.exists():
            write_atomically(self.path, "".join(f"{line}\n" for line in kept))

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict):
                yield line, _from_json(values)

    def _cut_torn_line(self) -> None:
        # Appending after half a line would spoil the new one too.
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value
