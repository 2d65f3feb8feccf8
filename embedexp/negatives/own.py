"""`negatives=own`: the hard negatives that come with the data."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from embedexp.data.columns import batches, heads

from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Own
    from embedexp.data import Dataset

log = logging.getLogger(__name__)


def attach(option: Own, dataset: Dataset) -> Dataset:
    """The first `count` negatives of each example, fewer where it has fewer, with their scores.

    Raises:
        NoNegativesError: the dataset has none.
    """
    longest = short = 0
    for rows in batches(dataset.negatives or ()):
        longest = max(longest, *map(len, rows))
        short += sum(len(row) < option.count for row in rows)
    if dataset.negatives is None or not longest:
        raise NoNegativesError(
            f"the dataset {dataset.name} comes without hard negatives",
            where="negatives=own",
            hint="use negatives=none, or name their field in data.columns.negatives",
        )
    if short:
        log.warning(
            "%s: %d of %d examples have fewer than %d hard negatives",
            dataset.name,
            short,
            len(dataset),
            option.count,
        )
    scores = dataset.teacher_scores
    return replace(
        dataset,
        negatives=heads(dataset.negatives, option.count),
        teacher_scores=None if scores is None else heads(scores, 1 + option.count),
    )
