"""Hashes that are the same on every machine, run and Python version: splits, orders, identities."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def stable_hash(*parts: str) -> int:
    """A non-negative 63-bit integer that depends on the parts alone (it fits an int64)."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def share(*parts: str) -> float:
    """A number in [0, 1), uniform over inputs: below 0.1 for a tenth of them."""
    return stable_hash(*parts) / 2**63


def shuffled(items: Iterable[T], purpose: str, key: Callable[[T], str]) -> list[T]:
    """The items in an order that only their keys and the purpose decide.

    Any first so many of them are a fair sample, and adding items moves none of the others.
    """
    return sorted(items, key=lambda item: (stable_hash(purpose, key(item)), key(item)))
