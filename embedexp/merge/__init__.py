"""Several trained models become one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.config.options import implementation

from .average import average

if TYPE_CHECKING:
    from .record import Record

__all__ = ["Score", "average", "merge"]

Score = Callable[[Path], float]
"""How good the model in a folder is; more is better."""


def merge(option: Any, output: str | Path, *, score: Score | None = None) -> Record:
    """Write the model that a `merge` option makes of its inputs to the folder `output`.

    Pooling, prompts, lengths and normalisation are those of the inputs, which must agree in them.
    `score` is for options that choose by it. Returns what was done, with every input's identity.

    Raises:
        UserError: the inputs do not fit each other or the option, or it merges nothing.
    """
    if not hasattr(option, "inputs"):
        raise UserError(
            f"merge={option.name} has no models to merge",
            hint="choose merge=uniform and merge.inputs=[A,B]",
        )
    made: Record = implementation("merge", option.name).merge(option, Path(output), score)
    return made
