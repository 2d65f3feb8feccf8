"""merge=uniform: the equal average (Llama-Embed-Nemotron-8B merges six runs this way)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import combining
from .together import merged

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.merge import Uniform

    from . import Score
    from .record import Record


def merge(option: Uniform, output: Path, score: Score | None = None) -> Record:
    """Write the equal average of the models in `option.inputs` (model soups, arXiv 2203.05482).

    Raises:
        UserError: the models differ in anything but their weights; the first difference is named.
    """
    return merged(option, option.inputs, [1.0] * len(option.inputs), combining.uniform, output)
