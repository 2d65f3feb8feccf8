"""Sources of examples, and the tokenised store that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from embedexp.config.options import implementation

from .dataset import Corpus, Dataset

if TYPE_CHECKING:
    from embedexp.config.schema.data import Data

__all__ = ["Corpus", "Dataset", "describe", "fingerprint", "load"]


def load(option: Data) -> Corpus:
    """The training datasets and held-out pairs of a `data` option.

    Raises:
        UserError: its files are missing or wrong, with the line.
    """
    return cast("Corpus", implementation("data", option.name).load(option))


def fingerprint(option: Data) -> str:
    """SHA-256 of the content that a `data` option reads, without parsing it."""
    return cast("str", implementation("data", option.name).fingerprint(option))


def describe(option: Data) -> list[tuple[str, str, int | None]]:
    """Name, task and number of examples (None where counting means reading) of each dataset."""
    return cast(
        "list[tuple[str, str, int | None]]", implementation("data", option.name).describe(option)
    )
