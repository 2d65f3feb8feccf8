"""Keeping examples out of training: which ones only their query decides."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .columns import batches
from .hashing import stable_hash

if TYPE_CHECKING:
    from .dataset import Dataset


def hold_out(
    dataset: Dataset, count: int, max_examples: int | None
) -> tuple[Dataset, tuple[Dataset, ...]]:
    """Training examples, at most `max_examples`, and at least `count` others (none if 0).

    All examples of a query are on the same side. A hash of the query chooses: other limits change
    nothing, and further examples little, about who is held out. Queries are read in batches; in
    memory there are 8 bytes for each.

    Raises:
        UserError: nothing is left for training.
    """
    if not count:
        if max_examples is None or max_examples >= len(dataset):
            return dataset, ()
        return dataset.select(range(max_examples)), ()
    import numpy as np

    hashes = array("q")
    for batch in batches(dataset.queries):
        hashes.extend(stable_hash("hold out", query) for query in batch)
    keys = np.frombuffer(hashes, np.int64)
    # The queries with the smallest hashes, up to the one with which there are enough rows.
    last = np.partition(keys, min(count, len(keys)) - 1)[min(count, len(keys)) - 1]
    held = keys <= last
    train = np.flatnonzero(~held)
    if not len(train):
        raise UserError(
            f"data.holdout={count} leaves nothing to train on: there are {len(dataset)} examples",
            hint=f"hold out fewer, such as data.holdout={len(dataset) // 10}",
        )
    kept = np.flatnonzero(held)
    return dataset.select(train[:max_examples]), (dataset.select(kept),)
