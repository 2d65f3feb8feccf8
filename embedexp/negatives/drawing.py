"""Wrong answers drawn at random, from the dataset's own documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.data.hashing import shuffled, stable_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from embedexp.data import Dataset

    Wrong = Callable[[str, str], bool]

TRIES = 8
"""Draws per wanted document before all of them are looked at: enough unless most are right."""


def draw(dataset: Dataset, count: int, seed: int, purpose: str) -> list[list[str]]:
    """At most `count` distinct documents for each example that are wrong for its query.

    Wrong are those that are no positive of the query's text, not that text, and of no group that
    the query belongs to. Every wrong document is equally likely.
    """
    # In an order of their own, so that that of the examples plays no part.
    documents = shuffled(set(dataset.positives), "draw", lambda text: text)
    right: dict[str, set[str]] = {}
    groups_of: dict[str, set[str]] = {}
    groups_of_document: dict[str, set[str]] = {}
    groups = dataset.groups if dataset.groups is not None else [None] * len(dataset)
    for query, positive, group in zip(dataset.queries, dataset.positives, groups, strict=True):
        right.setdefault(query, {query}).add(positive)
        if group is not None:
            groups_of.setdefault(query, set()).add(group)
            groups_of_document.setdefault(positive, set()).add(group)
    nothing: set[str] = set()

    def wrong(query: str, document: str) -> bool:
        if document in right[query]:
            return False
        shared = groups_of_document.get(document, nothing) & groups_of.get(query, nothing)
        return not shared

    return [
        _some(documents, count, _numbers(seed, purpose, query, positive), query, wrong)
        for query, positive in zip(dataset.queries, dataset.positives, strict=True)
    ]


def _some(
    documents: Sequence[str], count: int, numbers: Iterator[int], query: str, wrong: Wrong
) -> list[str]:
    """The first distinct wrong documents that the numbers point at."""
    chosen: dict[str, None] = {}
    for _ in range(TRIES * count):
        document = documents[next(numbers) % len(documents)]
        if wrong(query, document):
            chosen[document] = None
            if len(chosen) == count:
                return list(chosen)
    left = [document for document in documents if document not in chosen and wrong(query, document)]
    while left and len(chosen) < count:
        chosen[left.pop(next(numbers) % len(left))] = None
    return list(chosen)


def _numbers(seed: int, purpose: str, query: str, positive: str) -> Iterator[int]:
    """Endless numbers that depend on nothing but the arguments."""
    state = stable_hash("negatives", purpose, str(seed), query, positive)
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33
