"""Hashes that are the same on every machine, run and Python version: splits, orders, identities."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


def stable_hash(*parts: str) -> int:
    """A non-negative 63-bit integer that depends on the parts alone (it fits an int64)."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def text_digests(texts: Sequence[str]) -> NDArray[np.uint64]:
    """128-bit hashes of texts, `[n, 2]`: identities that no two texts share in practice."""
    import numpy as np

    blake2b = hashlib.blake2b
    joined = b"".join(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts
    )
    return np.frombuffer(joined, "<u8").reshape(-1, 2).astype(np.uint64)


def text_keys(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """63 bits of each hash, `[n]`, which say that two texts must not be negatives of each other.

    Two of 20 million texts share one with a probability of 2e-5; then one negative is masked.
    """
    import numpy as np

    return (digests[..., 0] >> np.uint64(1)).astype(np.int64)


def share(*parts: str) -> float:
    """A number in [0, 1), uniform over inputs: below 0.1 for a tenth of them."""
    return stable_hash(*parts) / 2**63


def shuffled(items: Iterable[T], purpose: str, key: Callable[[T], str]) -> list[T]:
    """The items in an order that only their keys and the purpose decide.

    Any first so many of them are a fair sample, and adding items moves none of the others.
    """
    return sorted(items, key=lambda item: (stable_hash(purpose, key(item)), key(item)))
