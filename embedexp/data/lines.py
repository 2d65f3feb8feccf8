"""Reading JSON lines, plain or compressed, and saying where a line is wrong."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES = (".jsonl", ".jsonl.gz")


def existing(path: str, key: str) -> Path:
    """The file that a config key names.

    Raises:
        UserError: it is missing, a folder, or of another format.
    """
    file = Path(path).expanduser()
    where = f"{key}={path}"
    if not file.is_file():
        folder = file.parent
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        near = nearest(file.name, names)
        hint = f"did you mean {folder / near}?" if near else f"mend the path in {key}"
        what = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise UserError(f"{file} {what}", where=where, hint=hint)
    if not file.name.endswith(SUFFIXES):
        raise UserError(
            f"{file.name} is not a JSON-lines file",
            where=where,
            hint="write one JSON object a line into a file called .jsonl or .jsonl.gz",
        )
    return file


def read_objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number, from 1, and object of each line; blank lines are passed over.

    Raises:
        UserError: a line is not UTF-8, has a NUL byte, or is not a JSON object; a damaged archive.
    """
    number = 0
    try:
        with _open(file) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _parse(file, number, line)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise bad_line(file, number + 1, f"the compressed file is damaged ({error})") from None


def bad_line(file: Path, number: int, problem: str, hint: str | None = None) -> UserError:
    """The error for a line that cannot be used."""
    return UserError(f"{file.name}, line {number}: {problem}", where=f"in {file}", hint=hint)


def text_problem(text: str) -> str | None:
    """What makes a text unusable, if anything does."""
    if "\0" in text:
        return "has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half of a surrogate pair, which is not Unicode text"
    return None


def _open(file: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _parse(file: Path, number: int, line: bytes) -> dict[str, Any]:
    if b"\0" in line:
        raise bad_line(file, number, "a NUL byte", "is this a text file?")
    try:
        # A byte-order mark is common in files from Windows, and harmless.
        value = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8"
        raise bad_line(file, number, problem, "save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at column {error.colno}"
        raise bad_line(file, number, problem) from None
    except (ValueError, RecursionError) as error:  # endless numbers, endless nesting
        raise bad_line(file, number, f"not JSON that can be read ({error})") from None
    if not isinstance(value, dict):
        problem = f"a JSON {type(value).__name__} where an object is needed"
        raise bad_line(file, number, problem, 'write lines such as {"query": "…", "positive": "…"}')
    return value
