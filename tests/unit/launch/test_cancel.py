"""A cancel reaches a run wherever it is, and a run that waits never starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from embedexp.launch.cancel import cancel, cancellable
from embedexp.launch.operate import look
from embedexp.runs import Job, RunDirectory, State, write_job
from embedexp.runs.status import hostname, now

from .fake_slurm import LONG_AGO, FakeSlurm, make

if TYPE_CHECKING:
    from pathlib import Path

# A process that owns the run in argv[1] and ends it as it was asked to.
STOPPABLE = """
import signal, sys, threading
from embedexp.runs import RunDirectory
run, stop = RunDirectory(sys.argv[1]), threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with run.owned():
    run.start("contrastive")
    print("owned", flush=True)
    stop.wait(30)
    (run.cancel if run.cancel_requested else run.preempt)("stopped")
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


def test_waiting_jobs_are_cancelled_at_once_and_running_ones_asked(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    waiting = make(tmp_path, "7_1", State.QUEUED)
    running = make(tmp_path, "7_2", heartbeat=now())
    slurm.says("squeue", "7_1|PENDING|Resources|", "7_2|RUNNING|None|node1")
    views = cancellable(look([waiting, running]).views)
    told = cancel(views)
    assert waiting.status.state is State.CANCELLED
    assert running.status.state is State.RUNNING
    assert running.cancel_requested
    assert "scancel 7_1 7_2" in slurm.calls
    assert "before it started" in told[0]
    assert "after saving" in told[1]


def test_a_job_that_could_not_be_cancelled_is_not_said_to_be(
    tmp_path: Path, slurm: FakeSlurm
) -> None:
    run = make(tmp_path, state=State.QUEUED)
    slurm.says("squeue", "7|PENDING|Resources|")
    slurm.fails("scancel", "scancel: error: Access denied")
    (told,) = cancel(look([run]).views)
    assert "did not cancel job 7" in told
    assert "Access denied" in told
    assert run.status.state is State.QUEUED


def test_only_runs_that_run_or_wait_are_cancelled(tmp_path: Path, slurm: FakeSlurm) -> None:
    for state in (State.FINISHED, State.FAILED, State.CANCELLED, State.PREEMPTED):
        make(tmp_path, "7", state)
    again = make(tmp_path, "8", State.PREEMPTED)
    slurm.says("squeue", "8|PENDING|BeginTime|")
    runs = [RunDirectory(path) for path in sorted(tmp_path.glob("run-*"))]
    assert [item.run.name for item in cancellable(look(runs).views)] == [again.name]
    cancel(cancellable(look(runs).views))
    assert again.status.state is State.CANCELLED


def test_a_local_run_saves_and_ends_as_cancelled(tmp_path: Path) -> None:
    run = make(tmp_path, None, State.PLANNED)
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPABLE, str(run.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        (told,) = cancel(cancellable(look([run]).views))
        assert f"process {process.pid}" in told
        process.wait(20)
    finally:
        process.kill()
        process.communicate()
    assert run.status.state is State.CANCELLED


def test_a_run_on_another_host_finds_the_request_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedexp.runs.directory.BEAT_SECONDS", 0.3)
    run = make(tmp_path, None, State.PLANNED)
    asked = threading.Event()
    with run.owned():
        run.start("contrastive")
        run.when_cancelled(asked.set)
        assert not asked.wait(0.4)
        elsewhere = RunDirectory(run.path)
        monkeypatch.setattr("embedexp.launch.cancel.hostname", lambda: "elsewhere")
        monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("killed a stranger's process"))
        cancel(cancellable(look([elsewhere]).views))
        assert asked.wait(10)
        run.cancel("stopped by a request")


def test_a_cell_that_waits_for_a_launcher_is_left_to_it(tmp_path: Path) -> None:
    run = make(tmp_path, None, State.QUEUED)
    write_job(run.job_file, Job("local", str(os.getpid()), host=hostname()))
    (told,) = cancel(cancellable(look([run]).views))
    assert "will not start it" in told
    assert run.cancel_requested


def own(run: RunDirectory) -> bool:
    """Whether the request to cancel is still there once the run is owned anew."""
    with run.owned():
        return run.cancel_requested


def test_a_new_start_forgets_an_old_request(tmp_path: Path) -> None:
    run = make(tmp_path, None, State.QUEUED)
    run.request_cancel()
    assert own(run), "made while this process waited: still to be honoured"
    with run.owned():
        run.cancel("cancelled")
    assert not own(run)
    (run.path / "cancel.json").write_text(f'{{"time": "{LONG_AGO}"}}')
    assert not own(run)


def test_what_slurm_starts_once_more_still_knows_that_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path, "7_3", State.CANCELLED)
    run.request_cancel()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert own(run)
    write_job(run.job_file, Job("slurm", "7_3"))
    assert not own(run), "submitted again after the request"


def test_sigterm_is_what_a_local_run_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make(tmp_path, None, pid=os.getpid(), host=hostname(), heartbeat=now())
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *pair: sent.append(pair))
    cancel(cancellable(look([run]).views))
    assert sent == [(os.getpid(), signal.SIGTERM)]
