"""Vectors of texts, kept on the disk by content: what was embedded once is read back."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Encode = Callable[[Sequence[str]], NDArray[np.floating[Any]]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CachedVectors:
    """Vectors of n texts `[n, d]`, in memory-mapped blocks: row i is `blocks[block[i]][row[i]]`."""

    blocks: Sequence[NDArray[np.floating[Any]]]
    block: NDArray[np.int32]
    row: NDArray[np.int32]

    @property
    def shape(self) -> tuple[int, ...]:
        """`(n, d)`."""
        return (len(self.row), self.blocks[0].shape[1] if self.blocks else 0)

    def __getitem__(self, index: Any) -> NDArray[np.floating[Any]]:
        block, row = self.block[index], self.row[index]
        found = np.empty((len(row), self.shape[1]), self.blocks[0].dtype)
        for number in np.unique(block):
            here = block == number
            found[here] = self.blocks[number][row[here]]
        return found


class EmbeddingCache:
    """Vectors of one teacher in one folder, found by the text alone.

    `identity` is everything else that decides a vector: the model's content, prompt, length,
    precision. A text that has changed is another text, and a miss; those around it stay hits.
    New vectors are written in blocks, each whole or not at all, so that a stopped run repeats at
    most one block, and several processes may fill the same cache.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, block: int = 8192) -> None:
        written = json.dumps(identity, sort_keys=True, default=str)
        name = hashlib.sha256(written.encode()).hexdigest()[:20]
        self.folder = folder.expanduser() / "embeddings" / name
        self.block = block
        self._identity = written

    def vectors(
        self,
        texts: Sequence[str],
        encode: Encode,
        dtype: str = "float32",
        on_block: Callable[[int, int], None] | None = None,
    ) -> CachedVectors:
        """The vectors of the texts, in their order; `encode` is asked for those that are missing.

        `on_block(done, missing)` is called before each block and after the last.
        """
        keys = np.stack([_key(text) for text in texts]) if len(texts) else np.empty((0, 2), "u8")
        blocks, known = self._read()
        missing = self._missing(keys, known)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "identity.json").write_text(self._identity, encoding="utf-8")
        for begin in range(0, len(missing), self.block):
            if on_block is not None:
                on_block(begin, len(missing))
            rows = missing[begin : begin + self.block]
            vectors = np.asarray(encode([texts[row] for row in rows])).astype(dtype)
            self._write(keys[rows], vectors)
        if len(missing):
            if on_block is not None:
                on_block(len(missing), len(missing))
            blocks, known = self._read()
        where, found = _find(known, keys)
        assert found.all()
        starts = np.cumsum([0, *(len(block) for block in blocks)])
        number = np.searchsorted(starts, where, "right") - 1
        return CachedVectors(
            blocks, number.astype(np.int32), (where - starts[number]).astype(np.int32)
        )

    def _missing(self, keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Rows of the first of each text that is not known, in order."""
        _, found = _find(known, keys)
        rows = np.flatnonzero(~found)
        _, first = np.unique(keys[rows], axis=0, return_index=True)
        return rows[np.sort(first)]

    def _write(self, keys: NDArray[np.uint64], vectors: NDArray[np.floating[Any]]) -> None:
        """Keep a block: its vectors first, then the keys that make them known."""
        name = hashlib.sha256(keys.tobytes()).hexdigest()[:20]
        for kind, array in (("vectors", vectors), ("keys", keys)):
            final = self.folder / f"{name}.{kind}.npy"
            # Named by process, and opened as any file is: a cache may be several users'.
            partial = final.with_name(f".{final.name}.{os.getpid()}")
            with partial.open("wb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(final)

    def _read(self) -> tuple[list[NDArray[np.floating[Any]]], NDArray[np.uint64]]:
        """The blocks, and the keys of all their rows `[m, 2]`."""
        blocks, keys = [], [np.empty((0, 2), np.uint64)]
        for path in sorted(self.folder.glob("*.keys.npy")):
            beside = path.with_name(path.name.replace(".keys.", ".vectors."))
            try:
                known = np.load(path, allow_pickle=False)
                block = np.load(beside, mmap_mode="r", allow_pickle=False)
                if known.shape != (len(block), 2):
                    raise ValueError("not as many keys as vectors")
            except (EOFError, FileNotFoundError, ValueError) as error:
                log.warning("embedded again: %s is damaged (%s)", beside, error)
                path.unlink(missing_ok=True)
                continue
            except OSError as error:  # no memory, no right: what others can read stays there
                log.warning("embedded again: %s cannot be read (%s)", beside, error)
                continue
            blocks.append(block)
            keys.append(known)
        return blocks, np.concatenate(keys)


def _key(text: str) -> NDArray[np.uint64]:
    """128 bits of a text."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.frombuffer(digest, np.uint64)


def _find(
    known: NDArray[np.uint64], keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each key is among the known ones, and whether it is there at all."""
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    order = np.argsort(known[:, 0], kind="stable")
    at = np.searchsorted(known[order, 0], keys[:, 0]).clip(max=len(known) - 1)
    where = order[at]
    return where, (known[where] == keys).all(1)
