"""Tensors in safetensors files, read in pieces and written in pieces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from torch import Tensor

FLOATS: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""The names that safetensors gives to types of weights; all others are no weights."""

PIECE = 2**20
"""Numbers that are read of a tensor at once."""

_BITS = 8


@dataclass(frozen=True)
class Place:
    """Where a tensor lies, and what it is like."""

    file: Path
    name: str
    dtype: str
    shape: tuple[int, ...]


Rows = tuple[int, int]
"""From the first row to the one after the last; scalars have one."""


class Tensors:
    """Named tensors in files; nothing of them is kept in memory.

    Experts may be renumbered: `orders[group][e]` is the number in the files of expert `e` of the
    expert layer `group`, and the rows of the layer's router, and of tensors that hold all its
    experts, go along (see `experts`).
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        self.places = dict(places)
        self.orders: dict[str, list[int]] = {}

    @classmethod
    def of(cls, files: Iterable[Path]) -> Tensors:
        """All tensors in some safetensors files."""
        places: dict[str, Place] = {}
        for path in files:
            with safe_open(path, "pt") as file:
                for name in file.keys():  # noqa: SIM118
                    piece = file.get_slice(name)
                    shape = tuple(piece.get_shape())
                    places[name] = Place(path, name, piece.get_dtype(), shape)
        return cls(places)

    def __contains__(self, name: str) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def read(self, name: str, rows: Rows | None = None) -> Tensor:
        """A tensor, or some of its rows, as it is stored."""
        from .experts import renumbered

        stored, order = renumbered(name, self.orders)
        place = self.places[stored]
        with safe_open(place.file, "pt") as file:
            if not place.shape or (rows is None and order is None):
                whole: Tensor = file.get_tensor(place.name)
                return whole
            stored_rows = file.get_slice(place.name)
            start, end = rows or (0, place.shape[0])
            if order is None:
                part: Tensor = stored_rows[start:end]
                return part
            # Row by row: all experts of a layer may be one tensor, which is not read whole.
            return torch.cat([stored_rows[row : row + 1] for row in order[start:end]])

    def read_within(self, name: str, rows: Rows) -> Tensor:
        """Of each row of a stored tensor, a matrix, some rows: `[n, rows, ...]`."""
        place = self.places[name]
        with safe_open(place.file, "pt") as file:
            part: Tensor = file.get_slice(place.name)[:, rows[0] : rows[1]]
        return part

    def pieces(self, name: str, together: int = 1) -> Iterator[Rows]:
        """Rows of a tensor, in order, so that `together` such pieces have about `PIECE` numbers."""
        shape = self.places[name].shape or (1,)
        width = max(1, self.size(name) // max(1, shape[0]))
        step = max(1, PIECE // (width * together))
        for start in range(0, shape[0], step):
            yield start, min(start + step, shape[0])

    def pieces_within(self, name: str) -> Iterator[Rows]:
        """What `read_within` can be asked for, in order, so that each has about `PIECE` numbers."""
        rows = self.places[name].shape[1]
        step = max(1, PIECE * rows // self.size(name))
        for start in range(0, rows, step):
            yield start, min(start + step, rows)

    def size(self, name: str) -> int:
        """How many numbers a tensor has."""
        return int(torch.Size(self.places[name].shape).numel())


class Writer:
    """A safetensors file that is written tensor by tensor, in the order of `names`.

    The library's own writer needs all tensors at once. The format: eight bytes with the length of
    a JSON header, the header with each tensor's type, shape and place, then the tensors' bytes.
    """

    def __init__(self, path: Path, layout: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        self.names: Sequence[str] = sorted(
            layout, key=lambda name: (-_bytes(layout[name][0]), name)
        )
        header: dict[str, object] = {"__metadata__": {"format": "pt"}}
        end = 0
        for name in self.names:
            dtype, shape = layout[name]
            start, end = end, end + _bytes(dtype) * int(torch.Size(shape).numel())
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _BITS)
        self._bytes = len(text) + 8 + end
        self._file: BinaryIO = path.open("wb")
        self._file.write(len(text).to_bytes(8, "little") + text)

    def write(self, piece: Tensor) -> None:
        """The next rows, in their final type."""
        self._file.write(piece.contiguous().reshape(-1).view(torch.uint8).numpy().data)

    def close(self) -> None:
        """End the file.

        Raises:
            RuntimeError: not all that the header names was written.
        """
        written = self._file.tell()
        self._file.close()
        if written != self._bytes:
            raise RuntimeError(f"{written} of {self._bytes} bytes were written")


def _bytes(dtype: str) -> int:
    """Bytes of one number, from the digits in the name of its type."""
    digits = "".join(c for c in dtype.partition("_")[0] if c.isdigit())
    return int(digits) // _BITS if digits else 1  # BOOL
