"""Runs as they really stand: what they said last, judged by SLURM and this machine's processes."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.runs import FailureKind, State
from embedexp.runs.ranks import rank_failures
from embedexp.runs.status import BEAT_SECONDS, hostname
from embedexp.runs.view import INTERRUPTED, View, remark, view

from .job_log import Casualty, first_casualty
from .scheduler import Verdict, ask, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from embedexp.runs import Job, RunDirectory
    from embedexp.runs.status import Status

# A record of a job, and a launcher that submits a thousand, may be that late.
LATE_SECONDS = 60.0
_MEANT_FOR_JOB = (State.PLANNED, State.QUEUED)


@dataclasses.dataclass(frozen=True)
class Overview:
    """Runs as they stand, and what SLURM could not tell."""

    views: list[View]
    problem: str | None = None


def look(runs: Iterable[RunDirectory], labels: Mapping[str, str] | None = None) -> Overview:
    """How `runs` stand, with at most one squeue and one sacct for all of them.

    Ends that SLURM tells of are written into the status, so that the next reader needs no SLURM;
    never while another process owns the run. `labels` are those of a multirun, by run name.
    """
    views = [view(run, (labels or {}).get(run.name, "")) for run in runs]
    asked = {item.job.id for item in views if item.job and item.job.id and _asks(item, item.job)}
    answer = ask(asked)
    launcher_lives = cache(_launcher_lives)
    judged = []
    for item in views:
        job = item.job
        if job is None or item.status.state not in (*_MEANT_FOR_JOB, State.RUNNING):
            item = _found_cause(item)
        elif job.launcher == "local":
            item = _judge_local(item, job, launcher_lives)
        elif job.id is None:
            item = _unsubmitted(item, job)
        elif answer.answered and _asks(item, job):
            state = answer.jobs.get(job.id)
            if state is None and _age(job) < LATE_SECONDS:
                judged.append(item)
                continue
            verdict = judge(
                state,
                started=item.status.state is State.RUNNING,
                cancelled=item.run.cancel_requested,
                known=answer.problem is None,
            )
            if verdict.state == State.CANCELLED and not item.run.cancel_requested:
                verdict = _never_started(item, verdict)
            item = _apply(item, verdict)
        if item.state == State.RUNNING and not item.remark and item.run.cancel_requested:
            item = dataclasses.replace(item, remark="asked to stop for good")
        judged.append(item)
    return Overview(judged, answer.problem)


def _asks(item: View, job: Job) -> bool:
    """Whether SLURM has to be asked: the run waits for it, or was started by it and is silent."""
    if job.launcher != "slurm" or job.id is None:
        return False
    if item.status.state in _MEANT_FOR_JOB:
        return True
    silent = (item.status.silence or 0.0) >= 2 * BEAT_SECONDS
    ours = item.status.state is State.RUNNING and item.status.job == job.id
    return ours and (silent or item.state == INTERRUPTED)


def _age(job: Job) -> float:
    then = datetime.fromisoformat(job.submitted)
    return (datetime.now(then.tzinfo) - then).total_seconds()


def _unsubmitted(item: View, job: Job) -> View:
    if _age(job) < LATE_SECONDS:
        return dataclasses.replace(item, remark="being submitted")
    told = "its submission was begun and not completed; look at squeue before retrying"
    return dataclasses.replace(item, state=INTERRUPTED, remark=told)


def _judge_local(item: View, job: Job, launcher_lives: Callable[[str, str], bool]) -> View:
    if item.state == INTERRUPTED and item.run.cancel_requested:
        return _apply(item, Verdict(State.CANCELLED, "cancelled", final=True))
    waiting = item.status.state in _MEANT_FOR_JOB and job.host == hostname()
    if waiting and not (job.id and launcher_lives(job.id, job.submitted)):
        if item.run.cancel_requested:
            return _apply(item, Verdict(State.CANCELLED, "cancelled", final=True))
        return dataclasses.replace(item, state=INTERRUPTED, remark="its launcher is gone")
    return item


def _launcher_lives(pid: str, submitted: str) -> bool:
    import psutil

    try:
        process = psutil.Process(int(pid))
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        # A process made later only has the launcher's number.
        return bool(process.create_time() <= datetime.fromisoformat(submitted).timestamp() + 1)
    except (psutil.NoSuchProcess, ValueError):
        return False
    except psutil.AccessDenied:
        return True


def _never_started(item: View, verdict: Verdict) -> Verdict:
    """SLURM ends a job whose predecessor has failed: its run was skipped, not cancelled."""
    from .order import unfinished

    reason = unfinished(item.run) if item.status.state in _MEANT_FOR_JOB else None
    return verdict if reason is None else Verdict(State.SKIPPED, reason, final=True)


def _apply(item: View, verdict: Verdict) -> View:
    """The view after `verdict`, written down where it is final and nobody else owns the run."""
    if verdict.final:
        return _settle(item, verdict)
    told = verdict.remark
    if verdict.state == State.RUNNING and item.remark:
        told = f"{item.remark}; {told}"
    return dataclasses.replace(item, state=verdict.state, remark=told)


def _settle(item: View, verdict: Verdict) -> View:
    run, kind, message, trace = item.run, verdict.kind, verdict.remark, None
    if kind in (FailureKind.ERROR, FailureKind.KILLED):
        casualty = _of_log(item)
        if casualty is not None:
            kind, message = casualty.kind, casualty.message
        for left in rank_failures(run.path, item.job.submitted if item.job else None)[:1]:
            # A killed rank says nothing, and the others' complaint that it is gone explains less.
            if kind is FailureKind.ERROR or not left.peer_gone:
                kind, message = left.kind, f"rank {left.rank}: {left.message}"
                trace = left.traceback
    try:
        with run.owned():
            if not _same(run.status, item.status):
                return view(run, item.label)
            if verdict.state == State.CANCELLED:
                run.cancel(message)
            elif verdict.state == State.PREEMPTED:
                run.preempt(message)
            elif verdict.state == State.SKIPPED:
                run.skip(message)
            else:
                run.fail(message, kind, trace=trace)
    except (UserError, OSError):
        # Owned by another process, or not ours to write: told, but not written down.
        return dataclasses.replace(item, state=verdict.state, remark=message)
    return view(run, item.label)


def _of_log(item: View) -> Casualty | None:
    """How the first of the job's tasks ended, where its log tells."""
    log = item.job.log if item.job is not None else None
    return None if log is None else first_casualty(item.run.path / log)


def _found_cause(item: View) -> View:
    """A failed run whose first rank only suffered from the death of another, with how that died.

    SLURM ends all others then, so the first may say anything: that a peer or a worker is gone.
    """
    status, job = item.status, item.job
    if job is None or job.launcher != "slurm" or status.job != job.id:
        return item
    found = _of_log(item) if status.failure is FailureKind.ERROR else None
    if found is None or found.rank == "0" or found.kind is FailureKind.ERROR:
        return item
    # Shown, not written: what the run has said of its own end stays as it is.
    told = dataclasses.replace(status, failure=found.kind, message=found.message)
    return dataclasses.replace(item, status=told, remark=remark(told))


def _same(one: Status, other: Status) -> bool:
    return (one.state, one.heartbeat, one.pid) == (other.state, other.heartbeat, other.pid)
