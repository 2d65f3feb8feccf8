"""What a SLURM job runs for its cell, in every task: one rank of a frozen run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NoReturn

from embedexp.cli import INTERRUPTED, OK, RUN_FAILED
from embedexp.config.errors import UserError
from embedexp.files import write_atomically
from embedexp.runs import RunDirectory, State
from embedexp.runs.job import Job, scheduler_job, write_job

if TYPE_CHECKING:
    from pathlib import Path

MOST_RESTARTS = 3
"""Restarts in a row without any progress after which a job gives up."""

PORTS = range(20_000, 32_768)
"""Where ranks meet: below what Linux gives to outgoing connections, one of which may be there."""

_SCONTROL_SECONDS = 60.0
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
# What changes without the run getting any further.
_NO_PROGRESS = re.compile(
    r"(status|environment|job|cancel|restarts)\.json|config\.yaml|lock|metrics\.jsonl|wandb"
    r"|log.*\.txt|failure\..*|\..*"
)


def run_cell(path: str) -> None:
    """Run, or go on with, the frozen run in the directory `path`, as one of the job's tasks.

    Raises:
        SystemExit: it did not finish; SLURM takes the task's exit code from it.
    """
    _become_rank()
    for number in _SIGNALS:
        # Until the run listens itself, nothing is lost by leaving at once.
        signal.signal(number, _leave)
    run = RunDirectory(path)
    first = os.environ["RANK"] == "0"
    code = _run(run, first=first)
    for number in _SIGNALS:
        # What SLURM sends to end a job must not keep it from saying how it ended.
        signal.signal(number, signal.SIG_IGN)
    if code == INTERRUPTED:
        # Another rank's exit code would have SLURM end the first one before it has requeued.
        code = _requeue(run) if first else OK
    if code != OK:
        sys.stdout.flush()
        sys.exit(code)


def _run(run: RunDirectory, *, first: bool) -> int:
    from embedexp.cli.commands import run_command

    identity = scheduler_job()
    job = run.job
    if job is not None and job.id not in (None, identity):
        print(f"{run.path} has been given to job {job.id} since; nothing to do")
        return OK
    try:
        if first:
            if run.cancel_requested and run.status.state is not State.FINISHED:
                with run.owned():
                    # Only a request that is meant for this job is still there.
                    if run.cancel_requested:
                        run.cancel("cancelled before its job started")
                        return OK
            _claim(run, job, identity)
            if problem := _no_progress(run, identity):
                return _fail(run, problem)
        return run_command("resume", [str(run.path)])
    except UserError as error:
        print(error, file=sys.stderr)
        return _fail(run, str(error)) if first else RUN_FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _become_rank() -> None:
    """Tell this process its rank, as torchrun would."""
    from submitit.helpers import TorchDistributedEnvironment

    # One that the submitting shell had would be taken over. Jobs that follow each other, and the
    # elements of an array, have ids and so ports of their own.
    os.environ.pop("MASTER_PORT", None)
    if (number := os.environ.get("SLURM_JOB_ID", "")).isdecimal():
        os.environ["MASTER_PORT"] = str(PORTS[int(number) % len(PORTS)])
    # A task sees all GPUs of its node, and takes that of its local rank.
    TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)


def _leave(number: int, _: object) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)


def _claim(run: RunDirectory, job: Job | None, identity: str | None) -> None:
    """Complete the record where the launcher has not come to it, or died before."""
    if job is not None and job.id is None and identity is not None:
        write_job(run.job_file, dataclasses.replace(job, id=identity))


def _fail(run: RunDirectory, message: str) -> int:
    # Who else owns the run tells how it ends.
    with contextlib.suppress(UserError), run.owned():
        if run.status.state is not State.FINISHED:
            run.fail(message)
    return RUN_FAILED


def _no_progress(run: RunDirectory, identity: str | None) -> str | None:
    """Why the job should not start once more: it was restarted and restarted, and got nowhere."""
    file = run.path / "restarts.json"
    try:
        content = json.loads(file.read_bytes())
        seen = list(content["seen"]) if content["job"] == identity else []
    except (OSError, ValueError, TypeError, KeyError):
        seen = []
    mark = progress_mark(run.path)
    seen = [*seen, mark] if seen and seen[-1] == mark else [mark]
    write_atomically(file, json.dumps({"job": identity, "seen": seen}) + "\n")
    if len(seen) <= MOST_RESTARTS:
        return None
    return (
        f"restarted {MOST_RESTARTS} times in a row without saving any progress; "
        "give it more time (hydra.launcher.time, signal_delay) or save more often "
        "(training.checkpoint_every)"
    )


def progress_mark(folder: Path) -> str:
    """What a run has saved so far, names and sizes: the same again means no progress."""
    found = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not any(_NO_PROGRESS.fullmatch(part) for part in parts) and path.is_file():
            found.append(f"{'/'.join(parts)} {path.stat().st_size}")
    import hashlib

    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]


def _requeue(run: RunDirectory) -> int:
    """Have SLURM queue this job once more, if the run is to go on; returns the exit code."""
    job, identity = run.job, scheduler_job()
    if run.cancel_requested or run.status.state is State.CANCELLED or identity is None:
        return OK if run.status.state is State.CANCELLED else INTERRUPTED
    if job is not None and not job.settings.get("requeue", True):
        return INTERRUPTED
    told = _scontrol("show", "job", "-o", identity) or ""
    state = re.search(r"\bJobState=(\w+)", told)
    if state is not None and state[1] not in ("RUNNING", "SUSPENDED"):
        # SLURM is ending it: one that it wants back it queues itself, a cancelled one stays away.
        return INTERRUPTED
    with run.owned():
        if run.status.state is State.RUNNING:
            run.preempt("stopped while it started")
        run.queue("stopped after a checkpoint; queued again")
    if _scontrol("requeue", identity) is None:
        return _fail(run, f"SLURM would not queue job {identity} again; its log tells why")
    return OK


def _scontrol(*arguments: str) -> str | None:
    """Output of scontrol, or None if it failed, which is printed."""
    try:
        done = subprocess.run(
            ["scontrol", *arguments],
            capture_output=True,
            text=True,
            timeout=_SCONTROL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return None
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return None
    return done.stdout
