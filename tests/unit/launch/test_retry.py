"""A retry launches exactly the runs asked for, as they were launched before."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from embedexp.config.errors import UserError
from embedexp.launch.retry import changes, groups, reasons, retryable
from embedexp.runs import FailureKind, Job, State, write_job
from embedexp.runs.view import View, view

from .fake_slurm import make
from .test_local import by_seed, multirun

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"partition": "main", "time": 60, "extra": {"exclude": "n7"}}


@pytest.fixture
def views(tmp_path: Path) -> dict[str, View]:
    """A run for each way to end, by its name among the reasons."""
    found = {}
    for kind in FailureKind:
        name = kind.value.replace(" ", "-").lower()
        found[name] = view(make(tmp_path, state=State.FAILED, failure=kind))
    for state in (State.CANCELLED, State.PREEMPTED, State.FINISHED, State.QUEUED):
        found[state.value] = view(make(tmp_path, state=state))
    found["interrupted"] = view(make(tmp_path, state=State.RUNNING))
    found["running"] = view(make(tmp_path, state=State.RUNNING, heartbeat="9999-01-01T00:00Z"))
    return found


def chosen(views: dict[str, View], *only: str, named: bool = False) -> set[str]:
    names = {item.run.name: name for name, item in views.items()}
    return {names[item.run.name] for item in retryable(list(views.values()), only, named=named)}


@pytest.mark.parametrize(
    "reason",
    ["timeout", "killed", "out-of-memory", "nan", "error", "cancelled", "interrupted", "preempted"],
)
def test_only_the_runs_that_ended_so_are_retried(views: dict[str, View], reason: str) -> None:
    assert chosen(views, reason) == {reason}


def test_failed_means_every_kind_of_failure(views: dict[str, View]) -> None:
    kinds = {"timeout", "killed", "out-of-memory", "nan", "error"}
    assert chosen(views, "failed") == kinds
    assert chosen(views, "timeout", "cancelled") == {"timeout", "cancelled"}


def test_running_queued_and_finished_runs_are_never_touched(views: dict[str, View]) -> None:
    assert chosen(views, *reasons(["failed,cancelled,interrupted,preempted"]), named=True) == set(
        views
    ) - {"running", "queued", "finished"}
    assert not {"running", "queued", "finished"} & chosen(views, named=True)


def test_what_was_cancelled_is_retried_only_by_name(views: dict[str, View]) -> None:
    assert "cancelled" not in chosen(views)
    assert "cancelled" in chosen(views, named=True)


def test_an_unknown_reason_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean timeout"):
        reasons(["failed,timeuot"])


def launched(folder: Path, launcher: str | None, settings: dict[str, object]) -> View:
    run = make(folder, None, State.FAILED, failure=FailureKind.TIMEOUT)
    if launcher is not None:
        write_job(run.job_file, Job(launcher, "7", settings=dict(settings)))  # type: ignore[arg-type]
    return view(run)


def test_settings_of_the_job_stay_but_for_those_given(tmp_path: Path) -> None:
    item = launched(tmp_path, "slurm", SETTINGS)
    changed = changes(["hydra.launcher.time=120", "hydra.launcher.extra.reservation=mine"])
    (group,) = groups([item], changed)
    assert group.launcher == "slurm"
    assert (group.settings["time"], group.settings["partition"]) == (120, "main")
    assert group.settings["extra"] == {"exclude": "n7", "reservation": "mine"}
    assert item.job is not None
    assert item.job.settings == SETTINGS


def test_runs_are_launched_together_that_were_launched_alike(tmp_path: Path) -> None:
    alone = launched(tmp_path, None, {})
    local = launched(tmp_path, "local", {"processes": 3})
    first, second = (launched(tmp_path, "slurm", SETTINGS) for _ in range(2))
    other = launched(tmp_path, "slurm", {**SETTINGS, "partition": "high"})
    found = groups([alone, local, first, other, second], changes([]))
    assert [(group.launcher, len(group.views)) for group in found] == [
        ("slurm", 2), ("slurm", 1), ("local", 1), ("local", 1),
    ]  # fmt: skip
    assert [group.settings["processes"] for group in found[2:]] == [1, 3]


def test_another_launcher_takes_none_of_the_old_settings(tmp_path: Path) -> None:
    item = launched(tmp_path, "slurm", SETTINGS)
    (group,) = groups([item], changes(["hydra/launcher=local", "hydra.launcher.processes=2"]))
    assert group.launcher == "local"
    assert group.settings["processes"] == 2
    assert "partition" not in group.settings


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("hydra.launcher.tmie=5", "did you mean time"),
        ("training.steps=5", "frozen"),
        ("hydra/launcher=slrum", "no launcher"),
        ("hydra.launcher.time=[", "can't be read"),
    ],
)
def test_what_a_retry_cannot_change_is_refused(tmp_path: Path, override: str, words: str) -> None:
    item = launched(tmp_path, "slurm", SETTINGS)
    with pytest.raises(UserError, match=words) as caught:
        groups([item], changes([override]))
    assert len(str(caught.value).splitlines()) <= 3


def test_local_cells_are_launched_again_and_the_others_left_as_they_are(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    process = multirun(base, stand_in, tmp_path, "seed=0,11,12", "hydra.launcher.processes=2")
    process.communicate(timeout=120)
    before = {seed: run.status for seed, run in by_seed(tmp_path / "runs").items()}
    command = [sys.executable, "-m", "embedexp", "retry", "runs", "--only", "nan"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=stand_in, cwd=tmp_path, check=False
    )
    after = {seed: run.status for seed, run in by_seed(tmp_path / "runs").items()}
    assert done.returncode == 1, done.stderr
    assert after[11].starts == before[11].starts + 1
    assert (after[0], after[12]) == (before[0], before[12])
    job = by_seed(tmp_path / "runs")[11].job
    assert job is not None
    assert job.settings["processes"] == 2
    assert job.multirun is not None
