"""A multirun: isolated cells, none able to stop or hide another, and an exit code that tells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embedexp.config import UserError
from embedexp.launch import local
from embedexp.launch import multirun as multirun_record
from embedexp.launch.process import thread_variables
from embedexp.runs import FailureKind, RunDirectory, State
from embedexp.runs.registry import find


def multirun(
    base: list[str], environment: dict[str, str], cwd: Path, *overrides: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "embedexp", "-m", *base, *overrides],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=cwd,
    )


def by_seed(folder: Path) -> dict[int, RunDirectory]:
    return {run.config.seed: run for run in find(folder)}


def test_failing_cells_neither_stop_nor_hide_the_others_and_finished_ones_are_reused(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    process = multirun(base, stand_in, tmp_path, "seed=11,0,12,14,1", "hydra.launcher.processes=2")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1, output
    runs = by_seed(tmp_path / "runs")
    assert runs[0].status.state is State.FINISHED
    assert runs[1].status.state is State.FINISHED
    assert runs[11].status.failure is FailureKind.NAN
    assert "FloatingPointError" in str(runs[11].status.traceback)
    assert runs[12].status.failure is FailureKind.KILLED
    assert "SIGKILL" in str(runs[12].status.message)
    assert runs[14].status.failure is FailureKind.ERROR
    assert runs[14].status.message == "no such device"
    for seed in (0, 1, 11, 12, 14):
        assert f"seed={seed}" in output
    assert "0.5100" in output
    assert "the loss is NaN at step 1" in output
    assert "3 of 5 failed" in output
    again = multirun(base, stand_in, tmp_path, "seed=0,1")
    output, _ = again.communicate(timeout=120)
    assert again.returncode == 0, output
    assert "0 to run, 2 finished already" in output
    # Nothing but runs, the code and the multiruns' records is left behind.
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs"]
    assert {entry.name for entry in (tmp_path / "runs").iterdir()} == {
        *(run.name for run in runs.values()),
        ".code",
        ".multirun",
    }
    ids = multirun_record.names(tmp_path / "runs")
    assert len(ids) == 2
    record = multirun_record.find(ids[0], tmp_path / "runs")
    assert record is not None
    assert [cell.label for cell in record.cells] == [f"seed={n}" for n in (11, 0, 12, 14, 1)]
    assert record.settings == {"processes": 2, "snapshot": True}


def test_interrupt_stops_cells_gracefully_and_says_that_it_goes_on(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    process = multirun(base, stand_in, tmp_path, "seed=13,0")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        runs = by_seed(tmp_path / "runs")
        if 13 in runs and runs[13].status.state is State.RUNNING:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "the same command goes on" in output
    runs = by_seed(tmp_path / "runs")
    assert runs[13].status.state is State.PREEMPTED
    assert runs[0].status.state is State.QUEUED


def test_cell_that_does_not_stop_is_killed_in_the_end(
    base: list[str], stand_in: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local, "STOP_SECONDS", 0.5)
    started = time.monotonic()

    def interrupt_once_running(seconds: float) -> None:
        time.sleep(seconds)
        run = by_seed(tmp_path / "runs")[15]
        if run.status.state is State.RUNNING and time.monotonic() - started < 60:
            time.sleep(0.3)
            raise KeyboardInterrupt

    class Clock:
        monotonic = staticmethod(time.monotonic)
        sleep = staticmethod(interrupt_once_running)

    monkeypatch.setattr(local, "time", Clock)
    with pytest.raises(KeyboardInterrupt):
        local.launch([[*base, "seed=15"]])
    run = by_seed(tmp_path / "runs")[15]
    assert run.status.failure is FailureKind.KILLED
    assert run.status.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(run.status.pid, 0)


def test_wrong_cell_starts_nothing_and_exits_as_the_users_mistake(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    process = multirun(base, stand_in, tmp_path, "routing=dense,mot")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "nothing was started" in output
    assert "Traceback" not in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("processes", [0, -1, 1.5, "two"])
def test_number_of_processes_is_checked_before_anything_else(
    base: list[str], tmp_path: Path, processes: object
) -> None:
    with pytest.raises(UserError, match=r"hydra\.launcher\.processes"):
        local.launch([base], processes=processes)
    assert list(tmp_path.iterdir()) == []


def test_cores_are_divided_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert thread_variables(2)["OMP_NUM_THREADS"] == "4"
    assert thread_variables(16)["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert thread_variables(2)["OMP_NUM_THREADS"] == "3"


def test_the_users_number_of_threads_goes_for_every_library(monkeypatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "77")
    assert set(thread_variables(1).values()) == {"77"}
    monkeypatch.setenv("MKL_NUM_THREADS", "78")
    assert thread_variables(1)["MKL_NUM_THREADS"] == "78"


def test_cell_that_is_cancelled_while_it_waits_is_never_started(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    process = multirun(base, stand_in, tmp_path, "seed=13,0")
    deadline = time.monotonic() + 60
    runs: dict[int, RunDirectory] = {}
    while time.monotonic() < deadline:
        runs = by_seed(tmp_path / "runs")
        if 13 in runs and runs[13].status.state is State.RUNNING:
            break
        time.sleep(0.1)
    runs[0].request_cancel()
    os.kill(runs[13].status.pid or 0, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1, output
    assert runs[0].status.state is State.CANCELLED
    assert runs[0].status.started is None
    assert "cancelled while it waited" in output


def test_threads_are_divided_among_ranks_too(
    base: list[str], stand_in: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    ranks = ["compute=ddp", "compute.accelerator=cpu", "compute.devices=4"]
    (outcome,) = local.launch([[*base, *ranks, "seed=0"]])
    assert outcome.state == State.FINISHED
    assert "threads 2" in outcome.cell.run.log_file.read_text()


def test_code_that_is_edited_later_does_not_change_what_cells_run(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    (outcome,) = local.launch([[*base, "seed=0"]])
    (folder,) = (tmp_path / "runs" / ".code").iterdir()
    (again,) = local.launch([[*base, "seed=1"]])
    assert outcome.state == again.state == State.FINISHED
    assert [entry.name for entry in (tmp_path / "runs" / ".code").iterdir()] == [folder.name]
    assert f"code {folder}" in again.cell.run.log_file.read_text()
