"""`negatives=random`: documents of other examples, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .drawing import draw
from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Random
    from embedexp.data import Dataset


def attach(option: Random, dataset: Dataset) -> Dataset:
    """`count` documents of the dataset for each example, fewer where there are fewer.

    The draw is fixed: it depends on `seed` and on the example's texts, not on the epoch or on where
    the example stands.

    Raises:
        NoNegativesError: there is no other document.
    """
    negatives = draw(dataset, option.count, option.seed, "random")
    if not any(negatives):
        raise NoNegativesError(
            f"{dataset.name} has no document that is wrong for any query", where="negatives=random"
        )
    return replace(dataset, negatives=negatives, teacher_scores=None)
