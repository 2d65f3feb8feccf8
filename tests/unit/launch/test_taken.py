"""A run that a process of a killed launcher has got to first is waited for, and run once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from embedexp.launch import local
from embedexp.launch.plan import plan
from embedexp.launch.process import CellProcess
from embedexp.runs import RunDirectory, State

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"processes": 1, "snapshot": False}


def resumed(run: RunDirectory, *, delay: float = 0.0, lasts: float = 0.0) -> subprocess.Popen[str]:
    """What a launcher that was killed has left behind: a process that is to carry out a run."""
    words = [sys.executable, "-c", ORPHAN, str(run.path), str(delay), str(lasts)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


ORPHAN = """
import sys, time
from embedexp.runs import RunDirectory
path, delay, lasts = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
run = RunDirectory(path)
time.sleep(delay)
with run.owned():
    run.start("contrastive", seed=0)
    print("started", flush=True)
    time.sleep(lasts)
    run.finish()
"""


def held_for_a_while(path: Path) -> threading.Thread:
    """Somebody has the run's lock, and lets it go without having started the run."""
    held = threading.Event()

    def hold() -> None:
        with RunDirectory(path).owned():
            held.set()
            time.sleep(1.5)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    return thread


def test_a_run_that_has_finished_since_it_was_planned_is_not_run_again(
    base: list[str], stand_in: dict[str, str]
) -> None:
    planned = plan([base])
    orphan = resumed(planned.cells[0].run)
    orphan.communicate(timeout=60)
    (outcome,) = local.launch_plan(planned, SETTINGS)
    assert (outcome.state, outcome.failed) == (State.FINISHED, False)
    assert planned.cells[0].run.status.starts == 1


def test_a_run_that_was_started_since_it_was_planned_is_waited_for(
    base: list[str], stand_in: dict[str, str]
) -> None:
    planned = plan([base])
    orphan = resumed(planned.cells[0].run, lasts=4)
    assert orphan.stdout.readline() == "started\n"
    (outcome,) = local.launch_plan(planned, SETTINGS)
    orphan.communicate(timeout=60)
    assert (outcome.state, outcome.failed) == (State.FINISHED, False)
    assert planned.cells[0].run.status.starts == 1


def test_a_run_that_is_started_before_our_process_gets_to_it_is_waited_for(
    base: list[str], stand_in: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan([base])
    run = planned.cells[0].run
    orphans = []

    class Late(CellProcess):
        def __init__(self, run: RunDirectory, variables: dict[str, str]) -> None:
            orphans.append(resumed(run, lasts=6))
            assert orphans[0].stdout.readline() == "started\n"
            super().__init__(run, variables)

    monkeypatch.setattr(local, "CellProcess", Late)
    (outcome,) = local.launch_plan(planned, SETTINGS)
    orphans[0].communicate(timeout=60)
    assert "already being run" in run.log_file.read_text(), "our process was to be the later one"
    assert (outcome.state, outcome.failed) == (State.FINISHED, False)
    assert run.status.starts == 1


def test_a_run_whose_other_process_dies_before_it_starts_is_ours_after_all(
    base: list[str], stand_in: dict[str, str]
) -> None:
    planned = plan([base])
    run = planned.cells[0].run
    thread = held_for_a_while(run.path)
    (outcome,) = local.launch_plan(planned, SETTINGS)
    thread.join()
    assert (outcome.state, outcome.failed) == (State.FINISHED, False)
    assert run.status.starts == 1


def test_what_reads_a_run_that_another_process_carries_out_waits_for_it(
    base: list[str], stand_in: dict[str, str]
) -> None:
    (first,) = plan([[*base, "stage=mlm", "loss=mlm"]]).cells
    reads = ["backbone.weights=pretrained", f"backbone.source={first.run.path}"]
    planned = plan([[*base, "stage=mlm", "loss=mlm"], [*base, *reads]])
    assert planned.cells[1].after == (first.run.path.resolve(),)
    orphan = resumed(first.run, lasts=4)
    assert orphan.stdout.readline() == "started\n"
    one, two = local.launch_plan(planned, SETTINGS)
    orphan.communicate(timeout=60)
    assert (one.state, two.state) == (State.FINISHED, State.FINISHED)
    assert first.run.status.starts == 1


def test_a_search_starts_again_what_another_process_has_left(
    base: list[str], stand_in: dict[str, str], tmp_path: Path
) -> None:
    from embedexp.sweeps.search.runs import LocalPlaces, Runs

    places = LocalPlaces(1, "study", {"processes": 1, "snapshot": False})
    runs = Runs(base, (), "study", [], None, places, ("local", {}))
    (name,) = runs.prepare(["seed=0"], 0)
    path = tmp_path / "runs" / name
    thread = held_for_a_while(path)
    runs.start(name)  # refused: the lock is held
    thread.join()
    until = time.monotonic() + 60
    while (result := runs.result(name)) is None and time.monotonic() < until:
        time.sleep(0.2)
    assert result is not None
    assert result.reason in (None, "")
    assert RunDirectory(path).status.state is State.FINISHED
