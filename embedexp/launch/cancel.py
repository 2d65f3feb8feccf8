"""Stop runs for good: those that wait at once, those that run after they have saved."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.runs import State
from embedexp.runs.status import hostname

from .scheduler import Answer, ask, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.runs.view import View

_AT_A_TIME = 500
_NOT_BEGUN = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")


def cancellable(views: Sequence[View]) -> list[View]:
    """Those that run or wait; one that was preempted too, as long as SLURM may start it again."""
    preempted = [item for item in views if item.state == State.PREEMPTED and _job_id(item)]
    alive = ask([_job_id(item) for item in preempted]).jobs
    again = [item for item in preempted if _job_id(item) in alive]
    again = [item for item in again if not alive[_job_id(item)].ended]
    return [item for item in views if item.active or item in again]


def cancel(views: Sequence[View]) -> list[str]:
    """Cancel `views`; returns, for each, what was done about it.

    A request in the run directory comes first, so that however a run ends from now on, it ends as
    cancelled and is not queued again.

    Raises:
        UserError: a run directory can't be written.
    """
    for item in views:
        try:
            item.run.request_cancel()
        except OSError as error:
            raise UserError(
                f"{item.run.path} can't be written: {error.strerror}",
                hint="cancel it as the user who has started it",
            ) from None
    jobs = [identity for item in views if (identity := _job_id(item))]
    answer = ask(jobs)
    problem = _scancel(jobs)
    return [
        _cancel_job(item, answer, problem) if _job_id(item) else _cancel_local(item)
        for item in views
    ]


def _job_id(item: View) -> str:
    """SLURM's id of the job that carries the run out; empty if another process does."""
    job = item.job
    if job is None or job.launcher != "slurm" or job.id is None:
        return ""
    elsewhere = item.status.state is State.RUNNING and item.status.job != job.id
    return "" if elsewhere else job.id


def _scancel(jobs: Sequence[str]) -> str | None:
    problem = None
    for start in range(0, len(jobs), _AT_A_TIME):
        _, told = call(["scancel", *jobs[start : start + _AT_A_TIME]])
        # A job that has ended meanwhile is as good as cancelled.
        if told is not None and "invalid job id" not in told.lower():
            problem = told
    return problem


def _cancel_job(item: View, answer: Answer, problem: str | None) -> str:
    identity = _job_id(item)
    if problem is not None:
        return f"asked to stop, but SLURM did not cancel job {identity}: {problem}"
    job = answer.jobs.get(identity)
    if job is not None and job.state not in _NOT_BEGUN:
        return f"stops after saving, or when SLURM's patience ends (job {identity})"
    _mark(item)
    return f"cancelled before it started (job {identity})"


def _cancel_local(item: View) -> str:
    status = item.status
    if status.state is not State.RUNNING:
        if item.job is None:
            _mark(item)
            return "cancelled"
        return "its launcher will not start it"
    if status.host != hostname() or status.pid is None:
        return f"asked to stop; {status.host} will notice within seconds"
    try:
        os.kill(status.pid, signal.SIGTERM)
    except ProcessLookupError:
        _mark(item)
        return "cancelled"
    except PermissionError:
        return "asked to stop; its process will notice within seconds"
    return f"stops after saving (process {status.pid})"


def _mark(item: View) -> None:
    """Write the end down at once, for a run that nobody owns."""
    try:
        with item.run.owned():
            if item.run.status.state not in (State.FINISHED, State.CANCELLED):
                item.run.cancel("cancelled")
    except (UserError, OSError):
        return  # it has just been started: it finds the request itself
