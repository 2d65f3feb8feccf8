"""What a run's state is when SLURM, not the run, says how its job ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from embedexp.launch import scheduler
from embedexp.launch.operate import look
from embedexp.runs import FailureKind, Job, RunDirectory, State, write_job
from embedexp.runs.status import hostname, now

from .fake_slurm import LONG_AGO, FakeSlurm, make

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


@pytest.mark.parametrize(
    ("told", "state", "kind", "words"),
    [
        ("TIMEOUT|node1|0:0", "failed", FailureKind.TIMEOUT, "time limit"),
        ("DEADLINE|node1|0:0", "failed", FailureKind.TIMEOUT, "deadline"),
        ("OUT_OF_MEMORY|node1|0:125", "failed", FailureKind.OUT_OF_MEMORY, "used more"),
        ("CANCELLED by 1000|node1|0:15", "cancelled", None, "cancelled in SLURM"),
        ("NODE_FAIL|node1|1:0", "failed", FailureKind.KILLED, "a node failed (node1)"),
        ("BOOT_FAIL|node2|1:0", "failed", FailureKind.KILLED, "did not start (node2)"),
        ("PREEMPTED|node1|0:0", "preempted", None, "preempted by SLURM"),
        ("FAILED|node1|0:9", "failed", FailureKind.KILLED, "for lack of memory"),
        ("FAILED|node1|9:0|0:9", "failed", FailureKind.KILLED, "for lack of memory"),
        ("FAILED|node1|1:0|1:9", "failed", FailureKind.ERROR, "exit code 1"),
        ("FAILED|node1|137:0", "failed", FailureKind.KILLED, "SIGKILL"),
        ("FAILED|node1|1:0", "failed", FailureKind.ERROR, "exit code 1"),
        ("COMPLETED|node1|0:0", "failed", FailureKind.ERROR, "has not said how it ended"),
    ],
)
def test_an_end_that_slurm_tells_is_written_into_the_status(
    tmp_path: Path, slurm: FakeSlurm, told: str, state: str, kind: FailureKind | None, words: str
) -> None:
    run = make(tmp_path)
    slurm.says("sacct", f"7|{told}" if told.count("|") == 3 else f"7|{told}|0:0")
    (view,) = look([run]).views
    assert (view.state, view.kind) == (state, kind)
    assert words in view.remark
    written = RunDirectory(run.path).status
    assert (written.state, written.failure) == (state, kind)
    calls = len(slurm.calls)
    assert look([run]).views[0].state == state
    assert len(slurm.calls) == calls, "the next reader needs no SLURM"


@pytest.mark.parametrize(
    ("told", "said", "state", "words"),
    [
        ("PENDING|Resources|", State.QUEUED, "queued", "free resources"),
        ("PENDING|Priority|", State.QUEUED, "queued", "other jobs come first"),
        ("PENDING|Dependency|", State.QUEUED, "queued", "depends on"),
        ("PENDING|JobHeldUser|", State.QUEUED, "queued", "scontrol release"),
        ("PENDING|QOSMaxJobsPerUserLimit|", State.QUEUED, "queued", "QOS allows"),
        ("PENDING|AssocGrpGRES|", State.QUEUED, "queued", "a limit of the account"),
        ("PENDING|QOSGrpCpuLimit|", State.QUEUED, "queued", "QOSGrpCpuLimit"),
        ("PENDING|BeginTime|", State.RUNNING, "queued", "queued again"),
        ("REQUEUE_HOLD|x|", State.RUNNING, "queued", "held"),
        ("RUNNING|None|node[1-2]", State.QUEUED, "queued", "has started on node[1-2]"),
        ("RUNNING|None|node1", State.RUNNING, "running", "SLURM says that its job runs on node1"),
        ("COMPLETING|None|node1", State.RUNNING, "running", "ending"),
        ("CONFIGURING|None|node1", State.QUEUED, "queued", "being prepared"),
        ("SUSPENDED|None|node1", State.RUNNING, "running", "suspended"),
    ],
)
def test_a_living_job_is_told_in_words_and_nothing_is_written(
    tmp_path: Path, slurm: FakeSlurm, told: str, said: State, state: str, words: str
) -> None:
    run = make(tmp_path, state=said)
    before = run.status_file.read_bytes()
    slurm.says("squeue", f"7|{told}")
    (view,) = look([run]).views
    assert view.state == state
    assert words in view.remark
    assert run.status_file.read_bytes() == before
    assert [call.split()[0] for call in slurm.calls] == ["squeue"]


def test_all_runs_need_one_squeue_and_one_sacct(tmp_path: Path, slurm: FakeSlurm) -> None:
    runs = [make(tmp_path, f"12_{element}") for element in range(20)]
    runs += [make(tmp_path, "13"), make(tmp_path, None, State.FINISHED)]
    slurm.says("squeue", *[f"12_{element}|RUNNING|None|node1" for element in range(10)])
    slurm.says(
        "sacct", "12_10|TIMEOUT|node1|0:0|0:0", "12_[11-14,16%2]|CANCELLED by 0||0:0|0:0",
        "12_15|COMPLETED|node1|0:0", "13|OUT_OF_MEMORY|node1|0:125",
    )  # fmt: skip
    states = [view.state for view in look(runs).views]
    assert states[:10] == ["running"] * 10
    assert states[10:17] == ["failed", *["cancelled"] * 4, "failed", "cancelled"]
    assert states[20:] == ["failed", "finished"]
    assert [call.split()[0] for call in slurm.calls] == ["squeue", "sacct"]
    assert "-X" in slurm.calls[1]


def test_a_job_that_slurm_has_forgotten_is_gone(tmp_path: Path, slurm: FakeSlurm) -> None:
    run = make(tmp_path)
    slurm.fails("squeue", "slurm_load_jobs error: Invalid job id specified")
    (view,) = look([run]).views
    assert (view.state, view.kind) == ("failed", FailureKind.KILLED)


def test_a_job_submitted_a_moment_ago_is_not_judged_by_late_records(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    run = make(tmp_path, state=State.QUEUED)
    write_job(run.job_file, Job("slurm", "7"))
    assert look([run]).views[0].state == "queued"


def test_without_accounting_the_queue_s_memory_is_enough(tmp_path: Path, slurm: FakeSlurm) -> None:
    ended, forgotten = make(tmp_path, "7"), make(tmp_path, "8")
    slurm.says("squeue", "7|TIMEOUT|TimeLimit|node1")
    slurm.fails("sacct", "Slurm accounting storage is disabled")
    overview = look([ended, forgotten])
    assert [view.state for view in overview.views] == ["failed", "interrupted"]
    assert ended.status.failure is FailureKind.TIMEOUT
    assert "accounting storage is disabled" in str(overview.problem)
    assert forgotten.status.state is State.RUNNING


def test_silence_of_slurm_is_told_and_changes_nothing(
    tmp_path: Path, slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path, state=State.QUEUED)
    slurm.fails("squeue", "slurm_load_jobs error: Unable to contact slurm controller")
    overview = look([run])
    assert overview.views[0].state == "queued"
    assert "Unable to contact" in str(overview.problem)
    monkeypatch.setattr(scheduler, "ANSWER_SECONDS", 0.2)
    (slurm.folder / "squeue").write_text("#!/bin/sh\nexec sleep 20\n")
    began = time.monotonic()
    assert "not answered within" in str(look([run]).problem)
    assert time.monotonic() - began < 5
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "can't be run here" in str(look([run]).problem)


def test_slurm_is_not_asked_about_runs_that_speak_or_that_its_job_does_not_run(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    speaking = make(tmp_path, heartbeat=now())
    by_hand = make(tmp_path)
    write_job(by_hand.job_file, Job("slurm", "6", submitted=LONG_AGO))
    states = [view.state for view in look([speaking, by_hand]).views]
    assert states == ["running", "interrupted"]
    assert slurm.calls == []


def test_the_status_of_a_run_that_is_owned_is_never_written(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    run = make(tmp_path)
    slurm.says("sacct", "7|TIMEOUT|node1|0:0|0:0")
    with RunDirectory(run.path).owned():
        (view,) = look([run]).views
    assert view.state == "failed"
    assert run.status.state is State.RUNNING


def test_a_requested_cancel_and_a_gone_job_are_a_cancelled_run(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    run = make(tmp_path)
    run.request_cancel()
    slurm.says("sacct", "7|FAILED|node1|0:9|0:0")
    assert look([run]).views[0].state == "cancelled"
    assert run.status.state is State.CANCELLED


def leave(run: RunDirectory, rank: int, message: str, time: str) -> None:
    content = {"message": message, "kind": "NaN", "traceback": f"Trace {rank}", "time": time}
    (run.path / f"failure.rank{rank}.json").write_text(json.dumps(content))


def test_the_rank_that_failed_explains_a_failed_job(tmp_path: Path, slurm: FakeSlurm) -> None:
    run = make(tmp_path)
    slurm.says("sacct", "7|FAILED|node1|1:0|0:0")
    leave(run, 1, "of an earlier job", "2001-01-01T00:00:00+00:00")
    leave(run, 2, "Connection closed by peer", (datetime.now(UTC)).isoformat())
    leave(run, 3, "loss is NaN", (datetime.now(UTC) + timedelta(seconds=1)).isoformat())
    look([run])
    status = run.status
    assert status.failure is FailureKind.NAN
    assert status.message == "rank 3: loss is NaN"
    assert status.traceback == "Trace 3"


def test_a_killed_rank_is_not_explained_by_the_ranks_that_miss_it(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    run = make(tmp_path)
    slurm.says("sacct", "7|FAILED|node1|137:0|0:0")
    leave(run, 2, "Connection closed by peer", now())
    assert look([run]).views[0].kind is FailureKind.KILLED


def test_a_submission_that_was_never_completed_is_told(tmp_path: Path, slurm: FakeSlurm) -> None:
    run = make(tmp_path, state=State.QUEUED)
    write_job(run.job_file, Job("slurm", None))
    assert look([run]).views[0].remark == "being submitted"
    write_job(run.job_file, Job("slurm", None, submitted=LONG_AGO))
    (view,) = look([run]).views
    assert view.state == "interrupted"
    assert "not completed" in view.remark


def test_a_cell_that_waits_for_a_dead_launcher_is_interrupted(tmp_path: Path) -> None:
    run = make(tmp_path, state=State.QUEUED)
    launcher = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        write_job(run.job_file, Job("local", str(launcher.pid), host=hostname()))
        assert look([run]).views[0].state == "queued"
    finally:
        launcher.kill()
        launcher.communicate()
    (view,) = look([run]).views
    assert (view.state, view.remark) == ("interrupted", "its launcher is gone")
    run.request_cancel()
    assert look([run]).views[0].state == "cancelled"


LOG = """\
submitit INFO (earlier) - Starting with JobEnvironment
srun: error: node1: task 0: Exited with exit code 1
submitit INFO (now) - Starting with JobEnvironment
step 3
srun: error: node2: task 1: {}
srun: error: node1: task 0: Terminated
"""


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        ("Killed", FailureKind.KILLED, "rank 1 on node2 was killed by SIGKILL"),
        ("Out Of Memory", FailureKind.OUT_OF_MEMORY, "rank 1 on node2"),
        ("Segmentation fault (core dumped)", FailureKind.KILLED, "Segmentation fault"),
        ("Exited with exit code 2", FailureKind.ERROR, "exit code 2"),
    ],
)
@pytest.mark.parametrize("said", ["nothing", "DataLoader worker is killed by signal: Terminated"])
def test_the_task_that_ended_the_others_is_found_in_the_job_s_log(
    tmp_path: Path, slurm: FakeSlurm, told: str, kind: FailureKind, words: str, said: str
) -> None:
    state, failure = State.RUNNING, None
    if said != "nothing":
        state, failure = State.FAILED, FailureKind.ERROR
    run = make(tmp_path, state=state, failure=failure, message=said)
    (run.path / "job.out").write_text(LOG.format(told))
    write_job(run.job_file, Job("slurm", "7", submitted=LONG_AGO, log="job.out"))
    slurm.says("sacct", "7|FAILED|node1|15:0|0:15")
    (view,) = look([run]).views
    assert view.kind is kind
    if said == "nothing" or kind is not FailureKind.ERROR:
        assert words in view.remark
    else:
        assert said in view.remark


@pytest.mark.parametrize(
    "log",
    [
        "srun: error: node1: task 0: Exited with exit code 1\nsrun: error: node1: task 1: Killed\n",
        "srun: error: node1: task 1: Exited with exit code 1\nsrun: error: node1: task 0: Killed\n",
        "",
    ],
)
def test_what_the_first_rank_says_of_its_own_failure_stays(
    tmp_path: Path, slurm: FakeSlurm, log: str
) -> None:
    run = make(tmp_path, state=State.FAILED, failure=FailureKind.ERROR, message="no such column")
    (run.path / "job.out").write_text(log)
    write_job(run.job_file, Job("slurm", "7", submitted=LONG_AGO, log="job.out"))
    (view,) = look([run]).views
    assert (view.kind, view.remark) == (FailureKind.ERROR, "no such column")
