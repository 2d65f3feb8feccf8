"""Sources of examples, and the tokenised store that they become."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, cast

from embedexp.config.errors import UserError
from embedexp.config.options import implementation

from .dataset import Corpus, Dataset

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.data import Data, MappedRows

__all__ = ["Corpus", "Dataset", "describe", "fingerprint", "load", "missing_column"]


def load(option: Data, cache_dir: str | Path | None = None) -> Corpus:
    """The training datasets and held-out pairs of a `data` option.

    Large data are kept in files below `cache_dir` and read from there as they are needed; without
    one they are held in memory.

    Raises:
        UserError: its files are missing or wrong, with the line.
    """
    return cast("Corpus", implementation("data", option.name).load(option, cache_dir))


def fingerprint(option: Data) -> str:
    """SHA-256 of the content that a `data` option reads, without parsing it.

    A column of languages counts as content: signatures without one are what they always were.
    """
    content = cast("str", implementation("data", option.name).fingerprint(option))
    language = getattr(getattr(option, "columns", None), "language", None)
    if language is None:
        return content
    return hashlib.sha256(f"{content}\0language\0{language}".encode()).hexdigest()


def describe(option: Data) -> list[tuple[str, str, int | None]]:
    """Name, task and number of examples (None where counting means reading) of each dataset."""
    return cast(
        "list[tuple[str, str, int | None]]", implementation("data", option.name).describe(option)
    )


def missing_column(option: Data) -> UserError | None:
    """What is wrong with `data.columns`, as far as the first row of a local file tells."""
    module = implementation("data", option.name)
    if not hasattr(module, "column_names"):
        return None
    from .mapping import MissingColumnError, resolve

    try:
        names = module.column_names(option)
        if names is not None:
            resolve(cast("MappedRows", option).columns, names)
    except MissingColumnError as error:
        return UserError(f"{describe(option)[0][0]} has {error.detail}", hint=error.hint)
    except UserError as error:
        return error
    return None
