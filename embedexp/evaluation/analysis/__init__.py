"""Analyses of a trained model: one module per option of `analysis`."""

from __future__ import annotations

from .report import Report, read, table

__all__ = ["Report", "read", "table"]
