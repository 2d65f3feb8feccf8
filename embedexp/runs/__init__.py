"""Run directories: status, metrics, provenance, lock and log of one experiment each."""

from .directory import RunDirectory
from .job import Job, read_job, write_job
from .run import Run
from .status import FailureKind, State, Status, failure_kind

__all__ = [
    "FailureKind",
    "Job",
    "Run",
    "RunDirectory",
    "State",
    "Status",
    "failure_kind",
    "read_job",
    "write_job",
]
