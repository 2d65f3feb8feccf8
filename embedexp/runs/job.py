"""`job.json` and `cancel.json`: who was asked to carry a run out, and whether to stop it."""

from __future__ import annotations

import dataclasses
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from embedexp.files import write_atomically

from .status import hostname, now

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Job:
    """What a launcher has asked for: `id` is SLURM's ("123", "123_4"), or the launcher's pid.

    Without an `id` a submission has been begun and not completed. `log` is the file with what the
    scheduler has recorded, `settings` are the launcher's parameters, for launching the run again.
    """

    launcher: Literal["local", "slurm"]
    id: str | None = None
    host: str = dataclasses.field(default_factory=hostname)
    submitted: str = dataclasses.field(default_factory=now)
    multirun: str | None = None
    log: str | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The job in one or two words, such as "slurm 123_4"."""
        return f"slurm {self.id or '?'}" if self.launcher == "slurm" else "local"

    @property
    def is_this_process(self) -> bool:
        """Whether this process carries the job out: inside SLURM's job, or below the launcher."""
        if self.launcher == "slurm":
            return self.id is not None and scheduler_job() == self.id
        return self.host == hostname() and self.id == str(os.getppid())


def scheduler_job() -> str | None:
    """SLURM's id of the job, or of the array's element, in which this process runs."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    if all(array):
        return "_".join(cast("tuple[str, str]", array))
    return os.environ.get("SLURM_JOB_ID")


def read_job(path: Path) -> Job | None:
    """The job in the file `path`, or None where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
        known = {field.name for field in dataclasses.fields(Job)}
        job = Job(**{key: value for key, value in content.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return job if job.launcher in ("local", "slurm") else None


def write_job(path: Path, job: Job) -> None:
    """Replace the file `path` by `job`."""
    write_atomically(path, json.dumps(dataclasses.asdict(job), indent=2) + "\n")


def requested_at(path: Path) -> datetime | None:
    """When the request in the file `path` was made, or None where there is none."""
    try:
        return datetime.fromisoformat(json.loads(path.read_bytes())["time"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        # A request that can't be read is still one.
        try:
            return datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except OSError:
            return None


def write_request(path: Path) -> None:
    """Write a request, with who has made it and when, to the file `path`."""
    content = {"time": now(), "host": hostname(), "pid": os.getpid()}
    write_atomically(path, json.dumps(content) + "\n")
