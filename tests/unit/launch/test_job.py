"""Inside a job: what SLURM is told of a run's end, and when it is asked to start it again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from embedexp.cli import commands
from embedexp.config import UserError
from embedexp.launch import job as module
from embedexp.launch.plan import plan
from embedexp.runs import RunDirectory, State
from embedexp.runs.job import Job, write_job

pytest.importorskip("submitit")
FAKE = Path(__file__).parent / "fake" / "slurm"


@pytest.fixture
def run(base: list[str]) -> RunDirectory:
    """A run that has been submitted as element 4 of job 123."""
    directory = plan([base]).cells[0].run
    with directory.owned():
        directory.queue()
    write_job(directory.job_file, Job("slurm", id="123_4", settings={"requeue": True}))
    return directory


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's folder; this process is the first of two tasks on two nodes."""
    commands_folder = tmp_path / "bin"
    commands_folder.mkdir()
    (commands_folder / "scontrol").symlink_to(FAKE)
    monkeypatch.setenv("PATH", f"{commands_folder}{os.pathsep}{os.environ['PATH']}")
    folder = tmp_path / "slurm"
    folder.mkdir()
    (folder / "job").write_text("JobId=127 JobState=RUNNING Reason=None\n")
    environment = {
        "FAKE_SLURM": str(folder),
        "SUBMITIT_EXECUTOR": "slurm",
        "SLURM_JOB_ID": "127",
        "SLURM_ARRAY_JOB_ID": "123",
        "SLURM_ARRAY_TASK_ID": "4",
        "SLURM_NTASKS": "2",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_JOB_NODELIST": "n[7-8]",
        "MASTER_PORT": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that what the job sets is taken back
    before = {number: signal.getsignal(number) for number in module._SIGNALS}
    yield folder
    for number, handler in before.items():
        signal.signal(number, handler)


def resumes(monkeypatch: pytest.MonkeyPatch, run: RunDirectory, end: str, code: int) -> None:
    """Let `resume` start the run, end it in the way called `end`, and return `code`."""

    def resume(name: str, arguments: list[str]) -> int:
        assert (name, arguments) == ("resume", [str(run.path)])
        with run.owned():
            run.start("contrastive")
            getattr(run, end)(*([] if end == "finish" else ["it ended"]))
        return code

    monkeypatch.setattr(commands, "run_command", resume)


def calls(slurm: Path, what: str) -> list[str]:
    file = slurm / "calls"
    return [
        line for line in (file.read_text().splitlines() if file.exists() else []) if what in line
    ]


def test_task_learns_its_rank_and_where_the_first_one_is(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes(monkeypatch, run, "finish", 0)
    module.run_cell(str(run.path))
    assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")] == list("021")
    assert os.environ["MASTER_ADDR"] == "n7"
    assert run.status.state is State.FINISHED
    assert calls(slurm, "requeue") == []


@pytest.mark.parametrize(("job", "port"), [("127", 20127), ("128", 20128), ("12768127", 20127)])
def test_ranks_meet_where_no_connection_goes_out(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch, job: str, port: int
) -> None:
    """Jobs on one node have ports of their own, below Linux's ephemeral ones."""
    (slurm / "job").write_text(f"JobId={job} JobState=RUNNING Reason=None\n")
    monkeypatch.setenv("SLURM_JOB_ID", job)
    resumes(monkeypatch, run, "finish", 0)
    module.run_cell(str(run.path))
    assert os.environ["MASTER_PORT"] == str(port)


def test_failure_is_slurms_too(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes(monkeypatch, run, "fail", 1)
    with pytest.raises(SystemExit) as caught:
        module.run_cell(str(run.path))
    assert caught.value.code == 1


def test_mistake_that_shows_in_the_job_is_in_the_status(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resume(*_: object) -> int:
        raise UserError("data.path is gone")

    monkeypatch.setattr(commands, "run_command", resume)
    with pytest.raises(SystemExit) as caught:
        module.run_cell(str(run.path))
    assert caught.value.code == 1
    assert run.status.state is State.FAILED
    assert run.status.message == "data.path is gone"


def test_stopped_run_is_queued_again_once_by_the_first_rank_only(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes(monkeypatch, run, "preempt", 130)
    module.run_cell(str(run.path))
    assert run.status.state is State.QUEUED
    assert calls(slurm, "requeue") == ["scontrol requeue 123_4"]
    monkeypatch.setenv("SLURM_PROCID", "1")
    module.run_cell(str(run.path))
    assert len(calls(slurm, "requeue")) == 1


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING"])
def test_job_that_slurm_ends_is_not_queued_again(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    (slurm / "job").write_text(f"JobId=127 JobState={state} Reason=None\n")
    resumes(monkeypatch, run, "preempt", 130)
    with pytest.raises(SystemExit) as caught:
        module.run_cell(str(run.path))
    assert caught.value.code == 130
    assert run.status.state is State.PREEMPTED
    assert calls(slurm, "requeue") == []


def test_cancelled_run_is_not_queued_again_and_needs_no_failure(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes(monkeypatch, run, "cancel", 130)
    module.run_cell(str(run.path))
    assert run.status.state is State.CANCELLED
    assert calls(slurm, "requeue") == []


def test_requeue_false_leaves_the_run_preempted(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_job(run.job_file, Job("slurm", id="123_4", settings={"requeue": False}))
    resumes(monkeypatch, run, "preempt", 130)
    with pytest.raises(SystemExit):
        module.run_cell(str(run.path))
    assert run.status.state is State.PREEMPTED
    assert calls(slurm, "requeue") == []


def test_requeue_that_slurm_refuses_is_a_failure(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm / "no_requeue").touch()
    resumes(monkeypatch, run, "preempt", 130)
    with pytest.raises(SystemExit) as caught:
        module.run_cell(str(run.path))
    assert caught.value.code == 1
    assert "123_4" in str(run.status.message)


def test_job_that_gets_nowhere_gives_up_after_three_restarts(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumes(monkeypatch, run, "preempt", 130)
    for _ in range(3):
        module.run_cell(str(run.path))
    # Progress starts the count again.
    (run.checkpoints / "step-00000002").mkdir(parents=True)
    (run.checkpoints / "step-00000002" / "weights").write_text("x")
    for _ in range(3):
        module.run_cell(str(run.path))
    with pytest.raises(SystemExit) as caught:
        module.run_cell(str(run.path))
    assert caught.value.code == 1
    assert run.status.state is State.FAILED
    assert "3 times in a row" in str(run.status.message)


def test_run_that_another_job_has_by_now_is_left_alone(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_job(run.job_file, Job("slurm", id="500"))
    monkeypatch.setattr(commands, "run_command", lambda *_: pytest.fail("it was started"))
    module.run_cell(str(run.path))
    assert run.status.state is State.QUEUED


def test_job_whose_launcher_died_completes_the_record_itself(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_job(run.job_file, Job("slurm", id=None))
    resumes(monkeypatch, run, "finish", 0)
    module.run_cell(str(run.path))
    assert run.job is not None
    assert run.job.id == "123_4"


def test_signal_before_the_run_listens_loses_nothing(
    run: RunDirectory, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        commands, "run_command", lambda *_: os.kill(os.getpid(), signal.SIGUSR2) or 0
    )
    module.run_cell(str(run.path))
    assert run.status.state is State.QUEUED
    assert len(calls(slurm, "requeue")) == 1
