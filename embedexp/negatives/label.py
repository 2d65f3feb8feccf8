"""`negatives=label`: the names of wrong classes, drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .drawing import draw
from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Label
    from embedexp.data import Dataset


def attach(option: Label, dataset: Dataset) -> Dataset:
    """`count` wrong labels of each example, fewer where there are fewer classes.

    The draw is fixed: it depends on `seed` and on the example's texts, not on the epoch or on where
    the example stands.

    Raises:
        NoNegativesError: the dataset is no classification, or has one class only.
    """
    if dataset.task != "classification":
        raise NoNegativesError(
            f"{dataset.name} teaches {dataset.task}, which has no labels",
            where="negatives=label",
            hint="use negatives=random or negatives=mined_file, or classification data",
        )
    negatives = draw(dataset, option.count, option.seed, "label")
    if not any(negatives):
        raise NoNegativesError(
            f"{dataset.name} has one label only, so that none is wrong", where="negatives=label"
        )
    return replace(dataset, negatives=negatives, teacher_scores=None)
