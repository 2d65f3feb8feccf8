"""evaluation=none: nothing is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .scores import Score


def evaluate(embedder: object, option: object, **rest: Any) -> list[Score]:
    """No scores."""
    return []
