"""merge=weighted: an average in which some models count more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import combining
from .together import merged

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.merge import Weighted

    from . import Score
    from .record import Record


def merge(option: Weighted, output: Path, score: Score | None = None) -> Record:
    """Write the average with `option.weights`: sum of w * model over the sum of w.

    Raises:
        UserError: the models differ in anything but their weights; the first difference is named.
    """
    formula = combining.weighted(option.weights)
    return merged(option, option.inputs, option.weights, formula, output)
