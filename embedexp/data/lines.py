"""Reading JSON lines, plain or compressed, and saying where a line is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import files, rows
from .rows import BadRowError, bad_row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.config.errors import UserError

JSON_LINES = files.Format(
    (".jsonl",), "a JSON-lines file", "write one JSON object a line into a file called .jsonl"
)


def existing(path: str, key: str) -> Path:
    """The one JSON-lines file that a config key names.

    Raises:
        UserError: it is missing, a folder, or of another format.
    """
    return files.existing(path, key, JSON_LINES)[0]


def read_objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number, from 1, and object of each line; blank lines are passed over.

    Raises:
        UserError: a line is not UTF-8, has a NUL byte, or is not a JSON object; a damaged archive.
    """
    for number, value in read_lines(file):
        if isinstance(value, BadRowError):
            raise bad_line(file, number, value.detail, value.hint)
        yield number, value


def read_lines(file: Path) -> Iterator[tuple[int, dict[str, Any] | BadRowError]]:
    """The same, with what is wrong in the place of a bad line.

    Raises:
        UserError: a damaged archive.
    """
    with files.opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, _parse(number, line)


def bad_line(file: Path, number: int, problem: str, hint: str | None = None) -> UserError:
    """The error for a line that cannot be used."""
    return bad_row(str(file), number, problem, hint)


def text_problem(text: str) -> str | None:
    """What makes a text unusable, if anything does."""
    fault = rows.text_problem(text)
    return fault[1] if fault else None


def _parse(number: int, line: bytes) -> dict[str, Any] | BadRowError:
    if b"\0" in line:
        return BadRowError("NUL character", "a NUL byte", "is this a text file?")
    try:
        # A byte-order mark is common in files from Windows, and harmless.
        value = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is not UTF-8"
        return BadRowError("not UTF-8", detail, "save the file as UTF-8")
    except json.JSONDecodeError as error:
        return BadRowError("not JSON", f"not JSON: {error.msg} at column {error.colno}")
    except (ValueError, RecursionError) as error:  # endless numbers, endless nesting
        return BadRowError("not JSON", f"not JSON that can be read ({error})")
    if not isinstance(value, dict):
        return BadRowError(
            "not a JSON object",
            f"a JSON {type(value).__name__} where an object is needed",
            'write lines such as {"query": "…", "positive": "…"}',
        )
    return value
