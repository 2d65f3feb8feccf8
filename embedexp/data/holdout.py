"""Keeping examples out of training: which ones only their query decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .hashing import shuffled

if TYPE_CHECKING:
    from .dataset import Dataset


def hold_out(
    dataset: Dataset, count: int, max_examples: int | None
) -> tuple[Dataset, tuple[Dataset, ...]]:
    """Training examples, at most `max_examples`, and at least `count` others (none if 0).

    All examples of a query are on the same side. A hash of the query chooses: other limits change
    nothing, and further examples little, about who is held out.

    Raises:
        UserError: nothing is left for training.
    """
    held: set[str] = set()
    if count:
        rows_of: dict[str, int] = {}
        for query in dataset.queries:
            rows_of[query] = rows_of.get(query, 0) + 1
        rows = 0
        for query in shuffled(rows_of, "hold out", lambda q: q):
            if rows >= count:
                break
            held.add(query)
            rows += rows_of[query]
    train = [row for row, query in enumerate(dataset.queries) if query not in held]
    if not train:
        raise UserError(
            f"data.holdout={count} leaves nothing to train on: there are {len(dataset)} examples",
            hint=f"hold out fewer, such as data.holdout={len(dataset) // 10}",
        )
    kept = [row for row, query in enumerate(dataset.queries) if query in held]
    return dataset.select(train[:max_examples]), (dataset.select(kept),) if kept else ()
