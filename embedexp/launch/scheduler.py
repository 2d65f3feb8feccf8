"""What SLURM says about jobs: one squeue and, for what it no longer knows, one sacct."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from embedexp.runs import FailureKind, State
from embedexp.runs.failure import exit_failure
from embedexp.runs.text import plain
from embedexp.runs.view import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ANSWER_SECONDS = 10.0
_ELEMENTS = re.compile(r"(\d+)_\[([\d,-]+)(?:%\d+)?\]")

REASONS = {
    "Resources": "waiting for free resources",
    "Priority": "other jobs come first",
    "Dependency": "waiting for the job that it depends on",
    "DependencyNeverSatisfied": "the job that it depends on did not succeed, it will never start",
    "JobHeldUser": "held by its user (scontrol release lets it go)",
    "JobHeldAdmin": "held by an administrator",
    "BeginTime": "waiting for its time to begin",
    "JobArrayTaskLimit": "as many elements of its array run as may at a time",
    "PartitionTimeLimit": "asks for more time than the partition allows, it will never start",
    "PartitionNodeLimit": "asks for more nodes than the partition allows, it will never start",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs",
    "Licenses": "waiting for a licence",
    "Reservation": "waiting for its reservation",
    "ReqNodeNotAvail": "a node that it asks for is not available",
    "BadConstraints": "no node is as it asks for, it will never start",
    "QOSMaxJobsPerUserLimit": "as many of your jobs run as the QOS allows at a time",
    "QOSMaxSubmitJobPerUserLimit": "more of your jobs wait than the QOS allows",
    "MaxJobsPerAccount": "as many of the account's jobs run as are allowed at a time",
}
"""SLURM's reasons for not starting a job yet, in words."""

_ENDED: dict[str, tuple[str, FailureKind | None, str]] = {
    "CANCELLED": (State.CANCELLED, None, "cancelled in SLURM"),
    "REVOKED": (State.CANCELLED, None, "revoked by SLURM"),
    "TIMEOUT": (State.FAILED, FailureKind.TIMEOUT, "the job reached its time limit"),
    "DEADLINE": (State.FAILED, FailureKind.TIMEOUT, "the job reached its deadline"),
    "OUT_OF_MEMORY": (State.FAILED, FailureKind.OUT_OF_MEMORY, "the job used more than it asked"),
    "NODE_FAIL": (State.FAILED, FailureKind.KILLED, "a node failed"),
    "BOOT_FAIL": (State.FAILED, FailureKind.KILLED, "a node did not start"),
    "PREEMPTED": (State.PREEMPTED, None, "preempted by SLURM for another job"),
    "COMPLETED": (
        State.FAILED,
        FailureKind.ERROR,
        "SLURM says that the job completed, but the run has not said how it ended",
    ),
}


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as SLURM tells: state in its word, reason for waiting, nodes, exit as "code:signal".

    `steps_exit` is the worst among its steps, where SLURM's records were asked.
    """

    state: str
    reason: str = ""
    nodes: str = ""
    exit_code: str = "0:0"
    steps_exit: str = "0:0"

    @property
    def ended(self) -> bool:
        """Whether SLURM will do nothing more with it."""
        return self.state in _ENDED or self.state.endswith(("FAILED", "_FAIL"))


@dataclass(frozen=True, slots=True)
class Answer:
    """Jobs by id, and what SLURM's commands have complained about; not `answered`: nothing known.

    Where there is no problem, SLURM does not know the jobs that are not among them.
    """

    jobs: dict[str, JobState] = field(default_factory=dict)
    problem: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run's state is, given its job's; `final` ones may be written down."""

    state: str
    remark: str
    kind: FailureKind | None = None
    final: bool = False


def ask(ids: Iterable[str]) -> Answer:
    """What SLURM knows about the jobs `ids` ("123", "123_4"); one or two calls in all."""
    wanted = set(ids)
    if not wanted:
        return Answer()
    numbers = sorted({item.partition("_")[0] for item in wanted}, key=int)
    listed = ",".join(numbers)
    # With -t all it also tells how jobs ended for some minutes, even without accounting.
    queue, problem = call(["squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%r|%N", "-j", listed])
    if problem is not None and "invalid job id" not in problem.lower():
        return Answer(problem=problem, answered=False)
    jobs = {}
    for identifier, state, reason, nodes in _rows(queue, 4):
        jobs[identifier] = JobState(state, reason, nodes)
    gone = [item for item in wanted if item not in jobs or jobs[item].ended]
    if gone:
        listed = ",".join(sorted({item.partition("_")[0] for item in gone}, key=int))
        columns = "JobID,State,NodeList,ExitCode,DerivedExitCode"
        told, problem = call(["sacct", "-X", "-n", "-P", "-o", columns, "-j", listed])
        for identifiers, state, nodes, *codes in _rows(told, 5):
            for identifier in _each(identifiers):
                # "CANCELLED by 1000"; the record of a job may lag behind its end.
                found = JobState(state.split(" ")[0], "", nodes, *codes)
                if identifier not in jobs or (jobs[identifier].ended and found.ended):
                    jobs[identifier] = found
        unknown = any(item not in jobs for item in gone)
        problem = problem if unknown else None
    else:
        problem = None
    return Answer({item: jobs[item] for item in wanted if item in jobs}, problem)


def judge(job: JobState | None, *, started: bool, cancelled: bool, known: bool = True) -> Verdict:
    """What the state of a run is that has not said how it ended.

    Args:
        job: What SLURM says; None if it does not know the job.
        started: Whether the run itself has said that it runs.
        cancelled: Whether a cancel was requested.
        known: Whether SLURM's records were asked too, so that not to be known means to be gone.
    """
    if job is None:
        if cancelled:
            return Verdict(State.CANCELLED, "cancelled", final=True)
        told = "SLURM no longer knows its job"
        if not known:
            return Verdict(INTERRUPTED, told)
        return Verdict(State.FAILED, told, FailureKind.KILLED, final=True)
    if not job.ended:
        return _alive(job, started=started)
    if cancelled:
        return Verdict(State.CANCELLED, "cancelled", final=True)
    failed_node = job.state in ("NODE_FAIL", "BOOT_FAIL") and job.nodes
    on = f" ({job.nodes})" if failed_node else ""
    if job.state in _ENDED:
        state, kind, words = _ENDED[job.state]
        if state == State.PREEMPTED and not started:
            state, kind = State.FAILED, FailureKind.KILLED
        return Verdict(state, words + on, kind, final=True)
    # srun gives a task's signal on as an exit code of its own; only its step's record is clear.
    by_signal = re.fullmatch(r"0:[1-9]\d*", job.steps_exit)
    kind, words = _exit(job.steps_exit if by_signal else job.exit_code)
    if job.exit_code == "0:0":
        words = f"SLURM says {job.state}"
    return Verdict(State.FAILED, words, kind, final=True)


def call(command: Sequence[str]) -> tuple[str, str | None]:
    """Output of one of SLURM's commands, and in a line why there is none, if so."""
    name = command[0]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"{name} has not answered within {ANSWER_SECONDS:.0f} s"
    except OSError as error:
        return "", f"{name} can't be run here: {error.strerror}"
    if done.returncode:
        lines = plain(done.stderr).strip().splitlines()
        return done.stdout, lines[-1] if lines else f"{name} ended with {done.returncode}"
    return done.stdout, None


def _alive(job: JobState, *, started: bool) -> Verdict:
    on = f" on {job.nodes}" if job.nodes else ""
    match job.state:
        case "PENDING" | "REQUEUED":
            again = "queued again, " if started else ""
            return Verdict(State.QUEUED, again + _why(job.reason))
        case "REQUEUE_HOLD" | "SPECIAL_EXIT":
            return Verdict(State.QUEUED, "requeued and held (scontrol release lets it go)")
        case "CONFIGURING":
            return Verdict(State.QUEUED, f"its nodes are being prepared:{on}")
        case "RUNNING" if not started:
            return Verdict(State.QUEUED, f"its job has started{on}, it has not yet")
        case "RUNNING":
            return Verdict(State.RUNNING, f"SLURM says that its job runs{on}")
        case "COMPLETING":
            state = State.RUNNING if started else State.QUEUED
            return Verdict(state, f"its job is ending{on}")
    state = State.RUNNING if started else State.QUEUED
    return Verdict(state, f"SLURM says {job.state.lower()}{on}")


def _why(reason: str) -> str:
    if reason in REASONS:
        return REASONS[reason]
    limit = re.match(r"(QOS|Assoc)", reason)
    if limit:
        whose = "the QOS" if limit[1] == "QOS" else "the account"
        return f"a limit of {whose} is reached ({reason})"
    return "waiting" if reason in ("", "None") else f"waiting ({reason})"


def _exit(code: str) -> tuple[FailureKind, str]:
    status, _, number = code.partition(":")
    try:
        return exit_failure(-int(number) if int(number) else int(status))
    except ValueError:
        return FailureKind.ERROR, f"the job ended with {code}"


def _rows(text: str, columns: int) -> Iterator[list[str]]:
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) >= columns:
            yield parts[:columns]


def _each(identifiers: str) -> Iterator[str]:
    """The ids of a record: "123", "123_4", or "123_[0-3,7%2]" for elements that never started."""
    match = _ELEMENTS.fullmatch(identifiers)
    if match is None:
        yield identifiers
        return
    for part in match[2].split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield f"{match[1]}_{number}"
