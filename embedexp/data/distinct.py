"""Which texts are the same: each distinct one gets a number, without any of them in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .arrays import ArrayWriter, load, pieces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

PART = 1 << 20  # hashes sorted at a time


def number(
    digests: NDArray[np.uint64], salts: Sequence[tuple[int, NDArray[np.uint64]]], folder: Path
) -> int:
    """Number the distinct hashes in the order of their first appearance.

    `digests [n, 2]` are 128-bit hashes; those from row `start` on are of another kind than those
    before, for each `(start, salt [2])` in ascending order: equal hashes count as the same only
    within kinds of equal salt. Writes `ids.npy [n]` int64 to `folder` and returns how many distinct
    ones there are. Memory depends on `PART` alone; the hashes are read once for each part.

    128 bits of a cryptographic hash take the place of the text itself: two different texts among
    20 million share one with a probability below 1e-24.
    """
    count = len(digests)
    first = np.lib.format.open_memmap(
        folder / "first.npy", mode="w+", dtype=np.int64, shape=(count,)
    )
    parts = max(1, -(-count // PART))
    for part in range(parts):
        rows, hashes = _members(digests, salts, part, parts)
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))  # stable: equal ones stay in order
        hashes, rows = hashes[order], rows[order]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
        first[rows] = rows[new][np.cumsum(new) - 1]
    distinct = 0
    with ArrayWriter(folder / "rank.npy", np.int64) as ranks:
        for piece in pieces(count):
            new = first[piece] == np.arange(piece.start, piece.stop)
            ranks.append(distinct + np.cumsum(new) - 1)
            distinct += int(new.sum())
    rank = load(folder / "rank.npy")
    with ArrayWriter(folder / "ids.npy", np.int64) as ids:
        for piece in pieces(count):
            ids.append(rank[first[piece]])
        ids.flush()
    del first, rank
    (folder / "first.npy").unlink()
    (folder / "rank.npy").unlink()
    return distinct


def first_seen(ids: NDArray[np.int64], before: int) -> NDArray[np.bool_]:
    """Which of some consecutive ids appear for the first time, after `before` distinct ones."""
    highest = np.maximum.accumulate(np.concatenate([[before - 1], ids]))
    return np.asarray(ids > highest[:-1])


def _members(
    digests: NDArray[np.uint64],
    salts: Sequence[tuple[int, NDArray[np.uint64]]],
    part: int,
    parts: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Rows and salted hashes of one part: those whose hash leaves the remainder `part`."""
    rows, hashes = [np.empty(0, np.int64)], [np.empty((0, 2), np.uint64)]
    stops = [*(start for start, _ in salts[1:]), len(digests)]
    for (start, salt), stop in zip(salts, stops, strict=True):
        for piece in pieces(stop - start):
            block = digests[start + piece.start : start + piece.stop] ^ salt
            mine = np.flatnonzero(block[:, 1] % np.uint64(parts) == part)
            rows.append(mine + (start + piece.start))
            hashes.append(block[mine])
    return np.concatenate(rows), np.concatenate(hashes)
