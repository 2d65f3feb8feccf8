"""Several trained models become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.options import implementation

from .average import average

if TYPE_CHECKING:
    from embedexp.embedding import Embedder

__all__ = ["average", "merge"]


def merge(option: Any) -> Embedder:
    """The embedder that a `merge` option makes of its inputs."""
    merged: Embedder = implementation("merge", option.name).merge(option)
    return merged
