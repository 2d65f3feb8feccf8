"""status, logs, retry and cancel as a user meets them."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from embedexp.cli import main
from embedexp.cli.logs import follow
from embedexp.launch import multirun
from embedexp.launch.outcome import Outcome
from embedexp.launch.plan import Cell
from embedexp.runs import FailureKind, Job, RunDirectory, State, Status, write_job
from embedexp.runs.status import now, write_status
from tests.unit.launch.fake_slurm import LONG_AGO, FakeSlurm, make

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    fake = FakeSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    return fake


@pytest.fixture
def runs(here: Path, slurm: FakeSlurm) -> Path:
    """A multirun of SLURM's job 7 with a cell that waits, one that timed out, one that ended."""
    folder = here / "runs"
    folder.mkdir()
    made = [
        make(folder, "7_0", State.QUEUED),
        make(folder, "7_1"),
        make(folder, "7_2", State.FINISHED),
    ]
    cells = tuple(
        multirun.MultirunCell(run.name, f"seed={seed}", ()) for seed, run in enumerate(made)
    )
    multirun.write(multirun.Multirun("sweep-0a1b2c", cells, "slurm", {}, now()), folder)
    slurm.says("squeue", "7_0|PENDING|Priority|")
    slurm.says("sacct", "7_1|TIMEOUT|node1|0:0|0:0")
    return folder


def test_status_of_a_multirun_shows_cells_jobs_kinds_and_counts(runs: Path, capsys) -> None:
    assert main(["status", "sweep-0a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "multirun sweep-0a1b2c"
    assert [line.split()[0] for line in lines[2:5]] == ["seed=0", "seed=1", "seed=2"]
    assert "queued" in lines[2]
    assert "slurm 7_0" in lines[2]
    assert "other jobs come first" in lines[2]
    assert "timeout: the job reached its time limit" in lines[3]
    assert lines[5] == "3 runs: 1 queued, 1 failed (timeout), 1 finished"


def test_status_of_a_failed_run_says_why_where_and_what_next(runs: Path, capsys) -> None:
    run = make(runs, None, State.FAILED, failure=FailureKind.ERROR, message="no [such] column",
               traceback="Traceback:\n" + "\n".join(f"line {n}" for n in range(20)), starts=3,
               nodes="node[1-2]", host="node1", pid=5)  # fmt: skip
    (run.path / "log.txt").write_text("x")
    (run.path / "log.rank1.txt").write_text("x")
    write_job(run.job_file, Job("slurm", "9", log="/var/job.out", settings={"time": 30}))
    assert main(["status", run.name]) == 0
    shown = capsys.readouterr().out
    for words in ("no [such] column", "slurm 9", "node[1-2]", "log.rank1.txt", "/var/job.out",
                  "line 19", f"retry runs/{run.name}", f"logs runs/{run.name}"):  # fmt: skip
        assert words in shown
    assert "line 5\n" not in shown
    assert [line.split() for line in shown.splitlines() if "restarts" in line] == [
        ["restarts", "2"]
    ]


def test_the_next_command_for_a_timeout_asks_for_more_time(runs: Path, capsys) -> None:
    run = make(runs, "9", State.FAILED, failure=FailureKind.TIMEOUT)
    write_job(run.job_file, Job("slurm", "9", settings={"time": 30}))
    main(["status", run.name])
    assert "hydra.launcher.time=60" in capsys.readouterr().out


def test_a_failure_of_another_rank_is_shown_where_the_first_has_none(runs: Path, capsys) -> None:
    run = make(runs, None, State.FAILED, failure=FailureKind.ERROR, message="rank 1 failed")
    left = f'{{"message": "x", "kind": "error", "traceback": "in rank 1", "time": "{now()}"}}'
    (run.path / "failure.rank1.json").write_text(left)
    main(["status", run.name])
    assert "in rank 1" in capsys.readouterr().out


def test_status_tells_that_slurm_is_silent_and_shows_what_is_known(
    runs: Path, slurm: FakeSlurm, capsys
) -> None:
    slurm.fails("squeue", "Unable to contact slurm controller")
    assert main(["status"]) == 0
    shown = capsys.readouterr().out
    assert "SLURM did not answer (Unable to contact slurm controller)" in shown
    assert "3 runs" in shown


def test_a_multirun_with_a_typo_is_answered_with_the_nearest(runs: Path, capsys) -> None:
    assert main(["status", "sweep-0a1b3c"]) == 2
    assert "did you mean sweep-0a1b2c" in capsys.readouterr().err


def test_a_thousand_runs_are_shown_within_a_second(here: Path, slurm: FakeSlurm, capsys) -> None:
    for number in range(1000):
        path = here / "runs" / f"run-{number:010x}"
        path.mkdir(parents=True)
        (path / "config.yaml").write_text("seed: 0\n")
        status = Status(State.RUNNING, heartbeat=now(), started=now(), host="n", job=f"7_{number}")
        write_status(path / "status.json", status)
        write_job(path / "job.json", Job("slurm", f"7_{number}"))
    main(["status", "run-0000000001"])  # imports
    began = time.process_time()
    assert main(["status"]) == 0
    assert time.process_time() - began < 1.0
    assert len(capsys.readouterr().out.splitlines()) > 1000


def test_logs_show_a_rank_or_the_scheduler_s_output(runs: Path, capsys) -> None:
    run = make(runs, "9", State.FAILED, message="died", failure=FailureKind.ERROR)
    (run.path / "job.out").write_text("ImportError: nothing there\n")
    write_job(run.job_file, Job("slurm", "9", log=str(run.path / "job.out")))
    assert main(["logs", run.name]) == 0
    shown = capsys.readouterr().out
    assert "is failed" in shown
    assert "died" in shown
    assert "ImportError: nothing there" in shown
    (run.path / "log.rank1.txt").write_text("of rank 1\n")
    main(["logs", run.name, "--rank", "1"])
    assert capsys.readouterr().out == "of rank 1\n"
    main(["logs", run.name, "--job"])
    assert capsys.readouterr().out == "ImportError: nothing there\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rank", "3"], "no log of rank 3"),
        (["--rank", "-1"], "no log of rank -1"),
        (["--job"], "no scheduler's log"),
        (["--job", "--rank", "1"], "exclude each other"),
    ],
)
def test_a_log_that_is_not_there_is_a_users_mistake(
    runs: Path, capsys, options: list[str], words: str
) -> None:
    run = make(runs, None, State.FINISHED)
    assert main(["logs", run.name, *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) <= 3


def test_following_survives_a_requeue_and_ends_with_the_run(here: Path, slurm: FakeSlurm) -> None:
    run = make(here, "7", State.QUEUED)
    slurm.says("squeue", "7|PENDING|BeginTime|")
    out = io.StringIO()
    reader = threading.Thread(
        target=follow, args=(RunDirectory(run.path),), kwargs={"wait": True, "out": out}
    )
    with run.owned():
        run.start("contrastive")
        run.log_file.write_text("one\n")
        reader.start()
        time.sleep(0.5)
        run.preempt("stopped")
        time.sleep(0.7)
        run.queue("again")
        time.sleep(0.7)
        assert reader.is_alive()
        run.start("contrastive")
        with run.log_file.open("a") as log:
            log.write("two\n")
        run.finish()
    reader.join(10)
    assert not reader.is_alive()
    assert out.getvalue() == "one\ntwo\n"


def test_retry_launches_exactly_the_runs_asked_for(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    launched = []

    def launch_frozen(runs, labels, settings):
        launched.append(([run.name for run in runs], list(labels), settings["time"]))
        for run in runs:
            with run.owned():
                write_job(run.job_file, Job("slurm", "8", submitted=now()))
                run.queue()
        cells = [Cell((), label, run, "run") for run, label in zip(runs, labels, strict=True)]
        return [Outcome(cell, State.QUEUED, "8") for cell in cells]

    monkeypatch.setattr("embedexp.launch.slurm.launch_frozen", launch_frozen)
    arguments = ["sweep-0a1b2c", "--only", "timeout", "hydra.launcher.time=120"]
    assert main(["retry", *arguments]) == 0
    assert launched == [([sorted(runs.glob("run-*"))[1].name], ["seed=1"], 120)]
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("seed=1")]
    assert "failed: timeout" in row
    assert "queued" in row
    assert "slurm 8" in row
    assert main(["retry", *arguments]) == 0
    assert "nothing to retry --only timeout" in capsys.readouterr().out
    assert len(launched) == 1


def test_cancel_asks_before_it_cancels_several(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    make(runs, "8", State.QUEUED)
    slurm_says = "7_0|PENDING|Priority|\n8|PENDING|Priority|\n"
    (runs.parent / "bin" / "squeue.out").write_text(slurm_says)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "n")
    assert main(["cancel", "runs"]) == 0
    assert "cancel 2 runs" in asked[0]
    assert "nothing was cancelled" in capsys.readouterr().out
    assert main(["cancel", "runs", "--yes"]) == 0
    assert capsys.readouterr().out.count("cancelled before it started") == 2
    assert len(asked) == 1
    assert main(["cancel", "runs"]) == 0
    assert "nothing to cancel" in capsys.readouterr().out


def test_cancel_never_cancels_what_is_not_named(runs: Path, capsys) -> None:
    assert main(["cancel"]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 3
    assert not list(runs.glob("*/cancel.json"))


def test_a_run_cancelled_long_ago_is_retried_by_name_only(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    run = make(runs, "9", State.CANCELLED, finished=LONG_AGO)
    launched: list[str] = []
    monkeypatch.setattr(
        "embedexp.launch.slurm.launch_frozen",
        lambda runs, labels, settings: launched.extend(one.name for one in runs) or [],
    )
    main(["retry", "runs", "--only", "error"])
    assert launched == []
    main(["retry", run.name])
    assert launched == [run.name]
