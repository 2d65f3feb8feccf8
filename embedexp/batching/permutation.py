"""A shuffle with random access: where index i goes, without shuffling the rest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 6


def key_of(*parts: object) -> int:
    """A 64-bit key from any printable parts, the same in every process and on every machine."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection that scatters bits."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def permute(
    indices: NDArray[np.int64], size: int, key: int | NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Images of `indices [n]` under the pseudo-random permutation of `range(size)` of a key.

    `key` is one for all of them, or `[n]`, one for each. A balanced Feistel network over the next
    power of four, walked until the image falls inside the range (Black and Rogaway 2002): constant
    expected time per index, whatever the size.
    """
    if size < 1:
        raise ValueError("nothing to permute")
    half_bits = max(1, ((size - 1).bit_length() + 1) // 2)
    half, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)

    def encrypt(values: NDArray[np.uint64], round_keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = values >> half, values & mask
        for round_key in round_keys:
            left, right = right, left ^ (_mix(right ^ round_key) & mask)
        return (left << half) | right

    with np.errstate(over="ignore"):
        keys = np.atleast_1d(np.asarray(key, np.uint64))
        round_keys = _mix(keys + np.arange(_ROUNDS, dtype=np.uint64)[:, None])  # [rounds, 1 or n]
        images = encrypt(indices.astype(np.uint64), round_keys)
        outside = np.flatnonzero(images >= size)
        while len(outside):
            own = round_keys if len(keys) == 1 else round_keys[:, outside]
            images[outside] = encrypt(images[outside], own)
            outside = outside[images[outside] >= size]
    return images.astype(np.int64)
