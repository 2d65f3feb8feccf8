"""Compose, resolve, validate, explain and sign experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compose import compose, compose_raw, expand
from .errors import UserError

if TYPE_CHECKING:
    from .experiment import Config
    from .show import brief

__all__ = ["Config", "UserError", "brief", "compose", "compose_raw", "expand"]


def __getattr__(name: str) -> Any:
    # The schema is imported on demand: commands that only look at runs never need it.
    if name == "Config":
        from .experiment import Config

        return Config
    if name == "brief":
        from .show import brief

        return brief
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
