"""`negatives=none`: only the other examples of the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedexp.config.schema.negatives import NoNegatives
    from embedexp.data import Dataset


def attach(option: NoNegatives, dataset: Dataset) -> Dataset:
    """The dataset without hard negatives, also where it comes with some."""
    del option
    return replace(dataset, negatives=None)
