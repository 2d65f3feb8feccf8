"""What further built-in tasks are made of: the held-out senses and their places in the taxonomy.

A sense is (id, query, gloss), as in `embedexp.data.builtin.Heldout.definitions`; its id begins with
its part of speech.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from embedexp.data.hashing import stable_hash
from embedexp.data.wordnet import taxonomy

if TYPE_CHECKING:
    from collections.abc import Sequence

    Sense = tuple[str, str, str]

CANDIDATES = 20
"""Glosses among which a sense's own is to be found."""

FREQUENT = 0.05
"""Share of the nouns that a concept must stand above to be a label."""


def candidates(
    senses: Sequence[Sense], queries: int
) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """(query, its gloss, glosses of the senses nearest to it) of the first so many senses."""
    near = _Nearness(senses)
    return [
        (query, [gloss], [senses[i][2] for i in near.of(row, CANDIDATES - 1)])
        for row, (_, query, gloss) in enumerate(senses[:queries])
    ]


def fitting(senses: Sequence[Sense]) -> list[tuple[str, str, bool]]:
    """(query, gloss, whether it fits): every other sense with the gloss of one near to it.

    No gloss is used twice: those that do not fit are the own ones of other wrong pairs, handed on
    within a part of speech to the next sense in the order of the taxonomy.
    """
    pairs = [(query, gloss, True) for _, query, gloss in senses[::2]]
    wrong = sorted(senses[1::2], key=lambda sense: _place(sense[0]))
    for (sense, query, gloss), (other, _, taken) in zip(wrong, _next(wrong), strict=True):
        if other[0] == sense[0] and taken != gloss:
            pairs.append((query, taken, False))
    return sorted(pairs, key=lambda pair: stable_hash("fitting", *pair[:2]))


def kinds(senses: Sequence[Sense]) -> list[tuple[str, tuple[str, ...]]]:
    """(gloss, the frequent concepts above its sense) of the nouns that have some, in order.

    Other parts of speech stay out: verbs are in hundreds of shallow trees, adjectives in none. A
    concept above all nouns says nothing, and concepts above the very same nouns are one.
    """
    above = {sense: taxonomy().path(sense)[:-1] for sense, _, _ in senses if sense[0] == "n"}
    members: dict[str, list[str]] = defaultdict(list)
    for sense, path in above.items():
        for concept in path:
            members[concept].append(sense)
    telling = {
        tuple(group): concept
        for concept, group in sorted(members.items())
        if FREQUENT * len(above) <= len(group) < len(above)
    }
    kept = set(telling.values())
    found = [
        (gloss, tuple(c for c in above[sense] if c in kept))
        for sense, _, gloss in senses
        if sense in above
    ]
    return [(gloss, labels) for gloss, labels in found if labels]


def halves(
    rows: Sequence[tuple[str, tuple[str, ...]]],
) -> tuple[list[tuple[str, tuple[str, ...]]], list[tuple[str, tuple[str, ...]]]]:
    """The first and the second half, with the labels that both of them have."""
    parts = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    shared = set.intersection(
        *({label for _, labels in part for label in labels} for part in parts)
    )
    first, second = (
        [(text, kept) for text, labels in part if (kept := tuple(x for x in labels if x in shared))]
        for part in parts
    )
    return first, second


class _Nearness:
    """Which senses stand near to one: the same word first, then by their common ancestors."""

    def __init__(self, senses: Sequence[Sense]) -> None:
        self.senses = senses
        self.words: dict[str, list[int]] = defaultdict(list)
        self.below: dict[str, list[int]] = defaultdict(list)
        for row, (sense, query, _) in enumerate(senses):
            self.words[_word(query)].append(row)
            for concept in (sense[0], *taxonomy().path(sense)):
                self.below[concept].append(row)

    def of(self, row: int, count: int) -> list[int]:
        """At most `count` rows, the nearest first; those equally near in the order of a hash."""
        sense, query, gloss = self.senses[row]
        path = (sense[0], *taxonomy().path(sense))
        found: dict[int, None] = {}
        for group in (self.words[_word(query)], *(self.below[c] for c in reversed(path))):
            order = sorted(
                group, key=lambda other: stable_hash("near", sense, self.senses[other][0])
            )
            found |= dict.fromkeys(i for i in order if i != row and self.senses[i][2] != gloss)
            if len(found) >= count:
                break
        return list(found)[:count]


def _word(query: str) -> str:
    return query.partition(":")[0]


def _place(sense: str) -> tuple[str, tuple[str, ...], int]:
    """Where a sense stands: those near to each other are next to each other."""
    return sense[0], taxonomy().path(sense)[:-1], stable_hash("place", sense)


def _next(senses: Sequence[Sense]) -> list[Sense]:
    return [*senses[1:], *senses[:1]]
