"""Arrays that are written piece by piece and read as memory maps: plain .npy files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType

    from numpy.typing import DTypeLike, NDArray

ROWS = 1 << 18  # rows in memory at a time, where an array is gone through


class ArrayWriter:
    """Writes an array `[n, *row]` to a .npy file, some rows at a time.

    `keep` goes on with a file after its first `keep` rows; what follows them is forgotten.
    """

    def __init__(
        self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = (), keep: int | None = None
    ) -> None:
        self.dtype, self.row = np.dtype(dtype), row
        self.length = keep or 0
        self._file = path.open("wb" if keep is None else "r+b")
        self._header()
        if keep is not None:
            size = keep * self.dtype.itemsize * int(np.prod(row, dtype=np.int64))
            self._file.seek(size, 1)
            self._file.truncate()

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        assert rows.shape[1:] == self.row
        self._file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.length += len(rows)

    def flush(self) -> None:
        """Hand everything to the operating system, and wait until it is on the disk."""
        import os

        self._file.flush()
        os.fsync(self._file.fileno())

    def _header(self) -> None:
        """The .npy header; numpy pads it, so that it takes the same room for every length."""
        self._file.seek(0)
        shape = (self.length, *self.row)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._header()
        self._file.close()


def bytes_written(path: Path) -> int:
    """The bytes of a .npy file that hold values, whatever its header says of their number."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return path.stat().st_size - file.tell()


def load(path: Path) -> NDArray[Any]:
    """The array of a .npy file, as a read-only memory map."""
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def pieces(count: int, size: int | None = None) -> Iterator[slice]:
    """The rows of an array, some at a time."""
    step = size or ROWS
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))
