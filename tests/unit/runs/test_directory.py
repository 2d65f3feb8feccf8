"""A run directory: frozen config, one owner at a time, states that can only go forwards."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from embedexp.config import Config, UserError
from embedexp.runs import FailureKind, RunDirectory, State

if TYPE_CHECKING:
    from pathlib import Path

Hold = "Callable[[RunDirectory], subprocess.Popen[str]]"


def test_directory_is_named_after_name_and_signature(config: Config, run: RunDirectory) -> None:
    assert run.name == f"{config.name}-{config.signature}"
    assert run.signature == config.signature
    assert run.status.state is State.PLANNED


def test_frozen_config_is_read_back_equal(config: Config, run: RunDirectory) -> None:
    assert run.config == config
    assert run.config.signature == config.signature


def test_rerun_is_a_wish_about_one_command_and_not_frozen(config: Config) -> None:
    wish = config.model_copy(update={"rerun": True})
    directory = RunDirectory.of(wish)
    directory.freeze(wish)
    assert directory.config.rerun is False


def test_key_without_identity_may_change_between_starts(config: Config, run: RunDirectory) -> None:
    training = config.training.model_copy(update={"checkpoint_every": 3})
    run.freeze(config.model_copy(update={"training": training}))
    assert run.config.training.checkpoint_every == 3


def test_another_experiments_config_is_never_overwritten(config: Config, run: RunDirectory) -> None:
    before = run.config_file.read_text()
    changed = before.replace("seed: 0", "seed: 5")
    assert changed != before
    run.config_file.write_text(changed)
    with pytest.raises(UserError, match="holds another experiment"):
        run.freeze(config)
    assert run.config_file.read_text() == changed


def test_only_the_owner_changes_a_run(run: RunDirectory) -> None:
    with pytest.raises(RuntimeError, match="owned"):
        run.update(step=1)


def test_second_process_is_told_who_runs_it(run: RunDirectory, hold: Hold) -> None:
    holder = hold(run)
    with pytest.raises(UserError, match=rf"process {holder.pid} on ") as caught, run.owned():
        pass
    assert len(str(caught.value).splitlines()) <= 3
    assert run.status.shown == "running"


def test_killed_process_leaves_a_run_that_reads_as_interrupted(
    run: RunDirectory, hold: Hold
) -> None:
    holder = hold(run)
    holder.kill()
    holder.wait()
    deadline = time.monotonic() + 10
    while run.status.shown == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert run.status.state is State.RUNNING
    assert run.status.shown == "interrupted"


def test_interrupted_run_is_taken_over_by_the_next_process(run: RunDirectory, hold: Hold) -> None:
    holder = hold(run)
    holder.kill()
    holder.wait()
    with run.owned():
        run.start("contrastive", total_steps=60, seed=0)
        assert run.status.pid != holder.pid
        run.finish()
    assert run.status.shown == "finished"


def test_updates_are_written_at_most_once_a_second_and_the_last_is_never_lost(
    run: RunDirectory,
) -> None:
    with run.owned():
        run.start("contrastive", total_steps=500)
        written = set()
        for step in range(500):
            run.update(step=step, rate=1.5, eta_seconds=9.0)
            written.add(json.loads(run.status_file.read_text())["step"])
        assert len(written) <= 3
        run.preempt("stopped by SIGTERM")
    status = RunDirectory(run.path).status
    assert (status.state, status.step, status.rate) == (State.PREEMPTED, 499, 1.5)
    assert status.eta_seconds is None


def test_failure_keeps_kind_message_and_traceback_but_no_secret(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "s3cr3t-value-123")
    with run.owned():
        run.start("contrastive")
        try:
            raise FloatingPointError("loss is NaN with s3cr3t-value-123")
        except FloatingPointError as error:
            run.fail(error)
    status = run.status
    assert status.failure is FailureKind.NAN
    assert status.message == "loss is NaN with ***"
    assert status.traceback is not None
    assert "test_directory.py" in status.traceback
    assert "s3cr3t" not in run.status_file.read_text()


def test_finished_run_is_not_run_again_by_accident(run: RunDirectory) -> None:
    with run.owned():
        run.start("contrastive")
        run.finish()
        with pytest.raises(ValueError, match="finished can't become running"):
            run.start("contrastive")


def test_clear_leaves_the_config_and_a_planned_run(run: RunDirectory) -> None:
    with run.owned():
        run.start("contrastive")
        run.metrics.append({"step": 1, "loss": 0.5})
        run.checkpoints.mkdir()
        (run.checkpoints / "step").write_text("1")
        run.finish()
        run.clear()
        assert run.status.state is State.PLANNED
        run.start("contrastive")
        run.finish()
    assert run.metrics.read() == []
    assert not run.checkpoints.exists()
    assert run.config_file.exists()


def test_clear_refuses_a_folder_that_is_no_run(run: RunDirectory) -> None:
    run.config_file.unlink()
    (run.path / "mine.txt").write_text("keep")
    with run.owned(), pytest.raises(UserError, match="not a run directory"):
        run.clear()
    assert (run.path / "mine.txt").exists()


def test_running_time_adds_up_over_sessions(run: RunDirectory) -> None:
    with run.owned():
        run.start("contrastive")
        time.sleep(0.25)
        run.preempt("stopped")
    first = run.status.seconds
    time.sleep(0.3)
    with run.owned():
        run.start("contrastive")
        time.sleep(0.25)
        run.finish()
    assert 0.2 <= first <= 0.5
    assert 0.4 <= run.status.seconds <= first + 0.5


@pytest.mark.parametrize("content", ["", "{", '{"state": "sideways"}', "[]"])
def test_unreadable_status_is_shown_as_such_and_can_be_started_again(
    run: RunDirectory, content: str
) -> None:
    run.status_file.write_text(content)
    assert run.status.state is State.FAILED
    assert "can't be read" in str(run.status.message)
    with run.owned():
        run.start("contrastive")
    assert run.status.state is State.RUNNING


def test_a_place_that_cannot_be_written_is_told_in_three_lines(
    config: Config, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    paths = config.paths.model_copy(update={"runs": str(tmp_path / "file")})
    long = config.model_copy(update={"name": "x" * 300})
    for changed in (config.model_copy(update={"paths": paths}), long):
        with pytest.raises(UserError, match="can't be written: ") as caught:
            RunDirectory.of(changed).freeze(changed)
        lines = str(caught.value).splitlines()
        assert len(lines) == 3
        assert max(map(len, lines)) < 200
