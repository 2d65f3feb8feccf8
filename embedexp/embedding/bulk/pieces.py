"""The pieces in which vectors are written, and the manifest that says what they are.

A folder keeps its pieces (`vectors-00000.npy`, ...) and `vectors.json`. A single file is put
together from pieces in `FILE.parts`, which then go; its manifest stays beside it, as `FILE.json`.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config.errors import UserError
from embedexp.config.sign import file_hash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

FORMATS = ("npy", "parquet")
MANIFEST = "vectors.json"


class Pieces:
    """Where the vectors of one set of texts are written."""

    def __init__(self, to: Path, settings: dict[str, Any], format: str | None = None) -> None:
        self.to, self.settings = to, settings
        ending = to.suffix.removeprefix(".")
        self.single = ending in FORMATS
        if not self.single and ending and not to.is_dir():
            raise UserError(
                f"--to {to} is neither a .npy nor a .parquet file, nor a folder",
                hint="name OUT.npy, OUT.parquet, or a folder without a dot in its name",
            )
        self.format = ending if self.single else (format or "npy")
        if self.format not in FORMATS or (self.single and format not in (None, ending)):
            raise UserError(
                f"--format {format} does not fit --to {to}", hint="choose from: npy, parquet"
            )
        self.folder = to.with_name(f"{to.name}.parts") if self.single else to
        self.manifest = to.with_name(f"{to.name}.json") if self.single else to / MANIFEST
        self.pieces: list[dict[str, Any]] = []
        self.seen = 0

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Let no other process write there meanwhile, and read what is there already.

        Raises:
            UserError: another process does, or the vectors there are of other settings.
        """
        from filelock import FileLock, Timeout

        self.to.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.to.with_name(f".{self.to.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(
                f"another process writes to {self.to}", hint="wait for it, or choose another --to"
            ) from None
        try:
            self._take_up()
            self.folder.mkdir(exist_ok=True)
            if not self.manifest.is_file():
                self._note(complete=False)  # before any piece, so that a killed job is known again
            yield
        finally:
            if self.single and self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()
            lock.release()

    def _take_up(self) -> None:
        if not self.manifest.is_file():
            if self.to.is_file() or (self.to.is_dir() and any(self.to.iterdir())):
                raise UserError(
                    f"{self.to} exists and holds no vectors of this command",
                    hint="choose another --to, or remove it yourself",
                )
            return
        content = json.loads(self.manifest.read_text(encoding="utf-8"))
        wanted = {**self.settings, "format": self.format}
        for key, value in wanted.items():
            if content["settings"].get(key) != value:
                raise UserError(
                    f"{self.to} holds vectors with {key}={content['settings'].get(key)}, "
                    f"not {value}",
                    hint="choose another --to, or remove it yourself",
                )
        self.pieces = content["pieces"]

    def path(self, number: int) -> Path:
        """The file of a piece."""
        return self.folder / f"vectors-{number:05d}.{self.format}"

    def has(self, number: int, texts: str, rows: int) -> bool:
        """Whether a piece is there, whole.

        Raises:
            UserError: it is of other texts.
        """
        self.seen = number + 1
        if number >= len(self.pieces):
            if self.single and self.to.is_file():
                raise UserError(
                    f"{self.to} is finished, and there are more texts, from {self._row(number)} on",
                    hint="choose another --to, or remove it yourself",
                )
            return False
        piece = self.pieces[number]
        if (piece["texts"], piece["rows"]) != (texts, rows):
            raise UserError(
                f"{self.to} holds vectors of other texts, from text {self._row(number)} on",
                hint="choose another --to, or remove it yourself",
            )
        if self.single and self.to.is_file():
            return True
        path = self.path(number)
        if path.is_file() and file_hash(path) == piece["sha256"]:
            return True
        del self.pieces[number:]
        return False

    def _row(self, number: int) -> int:
        return sum(piece["rows"] for piece in self.pieces[:number])

    def write(self, number: int, vectors: NDArray[Any], texts: str) -> None:
        """Write a piece, whole or not at all, and note it."""
        path = self.path(number)
        temporary = path.with_name(f".{path.name}.new")
        if self.format == "npy":
            with temporary.open("wb") as file:
                np.save(file, vectors)
        else:
            import pyarrow.parquet as pq

            pq.write_table(table(vectors, self._row(number)), temporary)
        temporary.replace(path)
        entry = {"file": path.name, "rows": len(vectors), "texts": texts}
        self.pieces = [*self.pieces[:number], {**entry, "sha256": file_hash(path)}]
        self._note(complete=False)

    def _note(self, *, complete: bool) -> dict[str, Any]:
        content = {
            "complete": complete,
            "rows": sum(piece["rows"] for piece in self.pieces),
            "settings": {**self.settings, "format": self.format},
            "pieces": self.pieces,
        }
        temporary = self.manifest.with_name(f".{self.manifest.name}.new")
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.manifest)
        return content

    def finish(self) -> dict[str, Any]:
        """Put a single file together, and say in the manifest that nothing is missing.

        Raises:
            UserError: there were no texts, or fewer than there are vectors of.
        """
        if not self.seen:
            raise UserError("there are no texts to encode", hint="check the file or the pipe")
        if self.seen < len(self.pieces):
            raise UserError(
                f"{self.to} holds vectors of more texts, from text {self._row(self.seen)} on",
                hint="choose another --to, or remove it yourself",
            )
        if self.single and not self.to.is_file():
            temporary = self.to.with_name(f".{self.to.name}.new")
            paths = [self.path(number) for number in range(len(self.pieces))]
            (join_npy if self.format == "npy" else join_parquet)(paths, temporary)
            temporary.replace(self.to)
        content = self._note(complete=True)
        if self.single:
            shutil.rmtree(self.folder, ignore_errors=True)
        return content


def table(vectors: NDArray[Any], first: int) -> Any:
    """An Arrow table of vectors: `row`, from `first` on, and `vector`, a list of fixed length."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors).reshape(-1))
    return pa.table(
        {
            "row": pa.array(np.arange(first, first + len(vectors))),
            "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
        }
    )


def join_npy(paths: list[Path], to: Path) -> None:
    """One array from those in files, one of them in memory, and open, at a time."""
    first = np.load(paths[0], mmap_mode="r")
    rows = sum(len(np.load(path, mmap_mode="r")) for path in paths)
    with to.open("wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(first.dtype),
            "fortran_order": False,
            "shape": (rows, first.shape[1]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for path in paths:
            file.write(np.ascontiguousarray(np.load(path)).tobytes())


def join_parquet(paths: list[Path], to: Path) -> None:
    """One file from several, each a row group."""
    import pyarrow.parquet as pq

    with pq.ParquetWriter(to, pq.read_schema(paths[0])) as writer:
        for path in paths:
            writer.write_table(pq.read_table(path))
