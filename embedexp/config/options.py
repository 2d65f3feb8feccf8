"""From the name of an option to the module that implements it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def implementation(group: str, name: str) -> ModuleType:
    """The module `embedexp.<group>.<name>`, imported when it is first needed."""
    return import_module(f"embedexp.{group}.{name}")
