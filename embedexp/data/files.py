"""The files that a config key names, and what is in them once they are decompressed."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from embedexp.config.errors import UserError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COMPRESSIONS = ("", ".gz", ".zst")
READERS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
"""Option of `data` that reads files called so."""


class Format(NamedTuple):
    """How files of one kind are called, and what they are."""

    endings: tuple[str, ...]
    noun: str  # a JSON-lines file
    hint: str  # how to make one

    @property
    def suffixes(self) -> tuple[str, ...]:
        """All endings that their names may have."""
        return tuple(end + packed for end in self.endings for packed in COMPRESSIONS)


def existing(path: str, key: str, form: Format) -> list[Path]:
    """The files that a config key names: one, or all that fit a pattern with `*`, by name.

    Raises:
        UserError: there is none, it is a folder, or it is of another format.
    """
    file = Path(path).expanduser()
    where = f"{key}={path}"
    found = [file]
    if "*" in path and not file.exists():
        found = _fitting(file)
        if not found:
            raise UserError(f"no file fits {file}", where=where, hint=f"mend the path in {key}")
    elif not file.is_file():
        folder = file.parent
        names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
        near = nearest(file.name, names)
        hint = f"did you mean {folder / near}?" if near else f"mend the path in {key}"
        if file.is_dir():
            hint = f"name its files: {key}='{file}/*{form.endings[0]}'"
        what = "is a folder, not a file" if file.is_dir() else "does not exist"
        raise UserError(f"{file} {what}", where=where, hint=hint)
    for each in found:
        if not each.name.endswith(form.suffixes):
            reader = _reader(each) if key == "data.path" else None
            hint = f"use data={reader}, which reads it" if reader else form.hint
            raise UserError(f"{each.name} is not {form.noun}", where=where, hint=hint)
    return found


def _reader(file: Path) -> str | None:
    """The option of `data` that reads a file of this name, if one does."""
    suffixes = [suffix for suffix in file.suffixes if suffix not in COMPRESSIONS]
    return READERS.get(suffixes[-1]) if suffixes else None


def _fitting(pattern: Path) -> list[Path]:
    """The files that fit a pattern; its folders may have stars as well."""
    parts = pattern.parts
    first = next(i for i, part in enumerate(parts) if "*" in part)
    base = Path(*parts[:first]) if first else Path()
    return sorted(p for p in base.glob(str(Path(*parts[first:]))) if p.is_file())


def title(path: str, form: Format) -> str:
    """What a dataset of these files is called: the file's name, or the pattern's without stars."""
    file = Path(path)
    name = file.name
    for suffix in sorted(form.suffixes, key=len, reverse=True):
        if name.endswith(suffix):
            name = name[: -len(suffix)]
            break
    return name.replace("*", "").strip("-_. ") or file.absolute().parent.name.replace("*", "")


def fingerprint(files: Sequence[Path]) -> str:
    """SHA-256 of the files' bytes, in their order."""
    digests = [_digest(file, (state := file.stat()).st_mtime_ns, state.st_size) for file in files]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@lru_cache(maxsize=4096)  # composing asks, and then reading
def _digest(file: Path, modified: int, size: int) -> str:
    del modified, size  # part of the cache's key
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def opened(file: Path) -> Iterator[IO[bytes]]:
    """The content of a file, decompressed as it is read.

    Raises:
        UserError: the compressed file is damaged, found when that part of it is read.
    """
    stream = _stream(file)
    try:
        yield stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _damaged(file, error) from None
    except OSError as error:
        # Arrow's message says no more than this; other errors of the disk have a number.
        if file.suffix == ".zst" and error.errno is None:
            raise _damaged(file, error) from None
        raise
    finally:
        stream.close()


def _stream(file: Path) -> IO[bytes]:
    if file.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(file))
    if file.suffix == ".zst":
        import pyarrow as pa

        raw = pa.CompressedInputStream(pa.OSFile(str(file)), "zstd")
        return cast("IO[bytes]", io.BufferedReader(raw, 1 << 20))
    return file.open("rb")


def _damaged(file: Path, error: Exception) -> UserError:
    return UserError(
        f"{file.name}: the compressed file is damaged ({error})",
        where=f"in {file}",
        hint="copy or download it again",
    )
