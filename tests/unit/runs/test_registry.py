"""Runs are found by path, name and signature, and quickly among many."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from embedexp.config.errors import UserError
from embedexp.runs import RunDirectory, State, Status
from embedexp.runs.registry import find, resolve
from embedexp.runs.status import now, write_status

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("experiment-0123456789", "experiment-01ff00ff00", "nomic-abcdefabcd")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in NAMES:
        _make(tmp_path / name)
    (tmp_path / ".multirun").mkdir()
    (tmp_path / "notes").mkdir()
    return tmp_path


def _make(path: Path) -> None:
    path.mkdir()
    (path / "config.yaml").write_text("seed: 0\n")


def test_only_run_directories_are_found(runs: Path) -> None:
    assert {run.name for run in find(runs)} == set(NAMES)


def test_folder_that_does_not_exist_has_no_runs(tmp_path: Path) -> None:
    assert find(tmp_path / "nowhere") == []


@pytest.mark.parametrize("text", ["nomic-abcdefabcd", "nomic", "abcdefabcd", "abc"])
def test_name_signature_and_their_beginnings_are_enough(runs: Path, text: str) -> None:
    assert resolve(text, runs).name == "nomic-abcdefabcd"


@pytest.mark.parametrize("suffix", ["", "/", "/config.yaml"])
def test_path_of_a_run_or_its_config_is_enough(runs: Path, suffix: str) -> None:
    assert resolve(f"{runs}/{NAMES[0]}{suffix}", "elsewhere").name == NAMES[0]


def test_ambiguous_beginning_lists_what_it_could_mean(runs: Path) -> None:
    with pytest.raises(UserError, match="means 2 runs"):
        resolve("01", runs)


def test_unknown_run_is_answered_with_the_nearest(runs: Path) -> None:
    with pytest.raises(UserError, match="did you mean nomic-abcdefabcd"):
        resolve("nomic-abcdefabdc", runs)


def test_no_runs_at_all_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="python -m embedexp"):
        resolve("x", tmp_path)


def test_hundreds_of_runs_are_listed_in_a_blink(tmp_path: Path) -> None:
    for number in range(300):
        path = tmp_path / f"run-{number:010x}"
        _make(path)
        write_status(path / "status.json", Status(state=State.RUNNING, heartbeat=now(), pid=1))
    start = time.process_time()
    states = [run.status.shown for run in find(tmp_path)]
    assert len(states) == 300
    assert time.process_time() - start < 0.5


def test_run_reads_as_its_directory_says(tmp_path: Path) -> None:
    _make(tmp_path / "a-1")
    assert RunDirectory(tmp_path / "a-1").status.state is State.PLANNED
