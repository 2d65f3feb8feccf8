"""One self-contained page about a sweep: the table, what it says, and how it came about."""

from __future__ import annotations

from .build import write

__all__ = ["write"]
