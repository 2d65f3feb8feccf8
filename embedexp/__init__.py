"""embedexp: declarative experiments with text-embedding models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import compose
    from .embedding import build_embedder, load
    from .routing import parameter_counts
    from .stage.execute import run

__version__ = "0.1.0"

__all__ = ["__version__", "build_embedder", "compose", "load", "parameter_counts", "run"]

# Importing the package must cost nothing: each name brings what it needs when it is first used.
_HOMES = {
    "build_embedder": "embedding",
    "compose": "config",
    "load": "embedding",
    "parameter_counts": "routing",
    "run": "stage.execute",
}
# Rooms whose own functions are public, such as embedexp.loss.info_nce.
_ROOMS = ("evaluation", "loss", "mask_schedule", "merge", "negatives", "routing")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
