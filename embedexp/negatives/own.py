"""`negatives=own`: the hard negatives that come with the data."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from .missing import NoNegativesError

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import Own
    from embedexp.data import Dataset

log = logging.getLogger(__name__)


def attach(option: Own, dataset: Dataset) -> Dataset:
    """The first `count` negatives of each example; fewer where it has fewer.

    Raises:
        NoNegativesError: the dataset has none.
    """
    if dataset.negatives is None or not any(dataset.negatives):
        raise NoNegativesError(
            f"the dataset {dataset.name} comes without hard negatives",
            where="negatives=own",
            hint="use negatives=none, or name their field in data.columns.negatives",
        )
    negatives = [list(row[: option.count]) for row in dataset.negatives]
    short = sum(len(row) < option.count for row in negatives)
    if short:
        log.warning(
            "%s: %d of %d examples have fewer than %d hard negatives",
            dataset.name,
            short,
            len(negatives),
            option.count,
        )
    return replace(dataset, negatives=negatives)
