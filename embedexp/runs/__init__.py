"""Run directories: status, metrics, provenance, lock and log of one experiment each."""

from .directory import RunDirectory
from .run import Run
from .status import FailureKind, State, Status, failure_kind

__all__ = ["FailureKind", "Run", "RunDirectory", "State", "Status", "failure_kind"]
