"""Types, ranges and units of every config key, one module per group."""

from .base import Option
from .experiment import GROUPS, Experiment

__all__ = ["GROUPS", "Experiment", "Option"]
