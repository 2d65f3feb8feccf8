"""What one run does, from a config to results: one module per stage."""

from .execute import run

__all__ = ["run"]
