"""Shares of a whole, drawn so that each is met exactly and their order is random."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from embedexp.data.hashing import stable_hash

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def quotas(shares: Mapping[str, float], count: int) -> dict[str, int]:
    """How many of `count` each name gets; shares need not add up to 1 (largest remainders)."""
    total = sum(shares.values())
    exact = {name: count * share / total for name, share in shares.items()}
    found = {name: int(value) for name, value in exact.items()}
    rest = count - sum(found.values())
    for name in sorted(exact, key=lambda each: found[each] - exact[each])[:rest]:
        found[name] += 1
    return found


def assigned(shares: Mapping[str, float], count: int, *key: object) -> list[str]:
    """A name for each of `count` places, as often as its quota, in an order that `key` decides."""
    names = [name for name, size in quotas(shares, count).items() for _ in range(size)]
    generator(*key).shuffle(names)
    return names


def drawn(values: Sequence[str], *key: object) -> str:
    """One of the values; `key` decides which."""
    return generator(*key).choice(values)


def generator(*key: object) -> random.Random:
    """Random numbers that are a function of `key` alone, the same on every machine."""
    return random.Random(stable_hash("generation", "\x1f".join(map(str, key))))
