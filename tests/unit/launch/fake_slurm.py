"""SLURM's commands as scripts that say what a test wants, and runs that SLURM's jobs carry out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from embedexp.runs import Job, RunDirectory, State, Status, write_job
from embedexp.runs.status import write_status

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()


class FakeSlurm:
    """squeue, sacct and scancel on PATH, which answer with files and write down their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("squeue", "sacct", "scancel"):
            script = folder / name
            script.write_text(
                f'#!/bin/sh\necho "{name} $*" >> "{folder}/calls"\n'
                f'cat "{folder}/{name}.err" >&2 2>/dev/null\n'
                f'cat "{folder}/{name}.out" 2>/dev/null\n'
                f'[ ! -e "{folder}/{name}.err" ]\n'
            )
            script.chmod(0o755)

    def says(self, command: str, *lines: str) -> None:
        (self.folder / f"{command}.out").write_text("".join(f"{line}\n" for line in lines))

    def fails(self, command: str, error: str) -> None:
        (self.folder / f"{command}.err").write_text(error + "\n")

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


def make(
    folder: Path, job: str | None = "7", state: State = State.RUNNING, **changes: Any
) -> RunDirectory:
    """A run of SLURM's job `job` that said `state` an hour ago, from another host."""
    path = folder / f"run-{len(list(folder.glob('run-*'))):010x}"
    path.mkdir()
    (path / "config.yaml").write_text("seed: 0\n")
    values = {"heartbeat": LONG_AGO, "pid": 1, "host": "node1", "started": LONG_AGO, "job": job}
    write_status(path / "status.json", Status(state=state, **{**values, **changes}))
    if job is not None:
        write_job(path / "job.json", Job("slurm", job, submitted=LONG_AGO))
    return RunDirectory(path)
