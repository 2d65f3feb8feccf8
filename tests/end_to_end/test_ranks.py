"""Several processes train what one does, stop together, and leave nobody behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from safetensors.torch import load_file

from embedexp.runs.ranks import rank_failures
from embedexp.training import checkpoint

from .conftest import overrides
from .test_run import wait_for_step

ROOT = Path(__file__).parents[2]
STEPS = 12
RANKS = ("compute.accelerator=cpu", "compute.workers=0")
SAME = ("backbone.dropout=0", "evaluation=none", f"training.steps={STEPS}")


def command(folder: Path, *more: str) -> subprocess.Popen[str]:
    options = [item for item in overrides(folder, *more) if not item.startswith("evaluation.")]
    return subprocess.Popen(
        [sys.executable, "-m", "embedexp", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def ended(process: subprocess.Popen[str], code: int, seconds: float = 300) -> str:
    output, _ = process.communicate(timeout=seconds)
    assert process.returncode == code, output
    return output


def only_run(folder: Path) -> Path:
    (config,) = (folder / "runs").glob("*/config.yaml")
    return config.parent


def status(run: Path) -> dict:
    return json.loads((run / "status.json").read_text())


def lines(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def ranks_of(process: subprocess.Popen[str], count: int) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = psutil.Process(process.pid).children()
        if len(children) == count:
            return children
        time.sleep(0.05)
    raise AssertionError("the other ranks have not been started")


def gone(processes: list[psutil.Process], seconds: float = 10) -> bool:
    return not psutil.wait_procs(processes, timeout=seconds)[1]


def assert_same_training(found: Path, expected: Path) -> None:
    """The same batches, and up to rounding the same losses and weights."""
    ours, theirs = lines(found), lines(expected)
    for key in ("step", "tokens", "tasks", "learning_rate"):
        assert [line[key] for line in ours] == [line[key] for line in theirs]
    for key in ("loss", "gradient_norm"):
        values = [line[key] for line in theirs]
        assert [line[key] for line in ours] == pytest.approx(values, rel=2e-4)
    weights, reference = (
        load_file(run / "model" / "model.safetensors") for run in (found, expected)
    )
    assert weights.keys() == reference.keys()
    # Adam's first steps have a size, not a direction, where gradients are tiny.
    assert max(float((weights[k] - reference[k]).abs().max()) for k in weights) < 2e-3


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    ended(command(folder, *SAME), 0)
    return only_run(folder)


def test_copies_of_the_model_train_as_one_process_does(alone, tmp_path):
    output = ended(command(tmp_path, *SAME, "compute=ddp", *RANKS), 0)
    assert output.count(f"step {STEPS}/{STEPS}") == 1  # one rank speaks
    run = only_run(tmp_path)
    assert run.name == alone.name
    assert status(run)["state"] == "finished"
    assert_same_training(run, alone)


def test_shards_stop_together_and_one_process_goes_on(alone, tmp_path):
    sharded = (*SAME, "compute=fsdp", *RANKS, "training.chunk_tokens=200")
    process = command(tmp_path, *sharded)
    (other,) = ranks_of(process, 1)
    run = wait_for_step(tmp_path, 2)
    other.send_signal(signal.SIGUSR1)  # any rank may be told
    output = ended(process, 130)
    assert "the same command goes on" in output
    assert gone([other])
    state = status(run)
    assert state["state"] == "preempted"
    assert 2 <= state["step"] < STEPS
    assert checkpoint.step_of(checkpoint.latest(run / "checkpoints")) == state["step"]
    ended(command(tmp_path, *SAME, "training.chunk_tokens=200"), 0)
    assert only_run(tmp_path) == run
    assert_same_training(run, alone)
    assert not (run / "checkpoints").exists()


def test_a_rank_that_is_killed_fails_the_run_and_the_same_command_goes_on(tmp_path):
    options = ("evaluation=none", "compute=ddp", *RANKS, "training.steps=300")
    process = command(tmp_path, *options)
    (other,) = ranks_of(process, 1)
    run = wait_for_step(tmp_path, 5)
    other.kill()
    output = ended(process, 1, 60)
    assert "rank 1: the process was killed by SIGKILL" in output
    assert (status(run)["state"], status(run)["failure"]) == ("failed", "killed")
    assert [failure.rank for failure in rank_failures(run)] == [1]
    reached = checkpoint.step_of(checkpoint.latest(run / "checkpoints"))
    process = command(tmp_path, *options)
    others = ranks_of(process, 1)
    wait_for_step(tmp_path, reached + 3)
    process.kill()  # and the first rank takes the others with it
    process.communicate(timeout=30)
    assert gone(others)
    assert [line["step"] for line in lines(run)] == list(range(1, len(lines(run)) + 1))


def test_an_error_of_another_rank_is_the_runs_error(tmp_path, monkeypatch):
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('RANK') == '1':\n"
        "    from embedexp.training import world\n"
        "    kept = world.World.in_turn\n"
        "    def broken(self, work):\n"
        "        raise MemoryError('no room on rank 1')\n"
        "    world.World.in_turn = broken\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hook))
    output = ended(command(tmp_path, *SAME, "compute=ddp", *RANKS), 1, 60)
    assert "rank 1: no room on rank 1" in output
    state = status(only_run(tmp_path))
    assert (state["state"], state["failure"]) == ("failed", "out of memory")
    assert "in broken" in state["traceback"]


def test_the_time_limit_stops_a_run_that_can_go_on(tmp_path):
    output = ended(
        command(tmp_path, "evaluation=none", "training.steps=5000", "compute.time_limit=0.1"), 130
    )
    assert "time limit of 0.1 minutes" in output
    run = only_run(tmp_path)
    assert status(run)["state"] == "preempted"
    newest = checkpoint.latest(run / "checkpoints")
    assert status(run)["step"] == (checkpoint.step_of(newest) if newest else 0)


def test_processes_that_do_not_fit_what_was_asked_for_are_refused(tmp_path):
    several = command(tmp_path, "compute=ddp", *RANKS, "compute.nodes=2")
    assert "but this command runs on one machine" in ended(several, 2)


def test_a_signal_to_every_process_stops_a_run_with_workers(tmp_path):
    process = command(tmp_path, "evaluation=none", "training.steps=5000", "compute.workers=1")
    run = wait_for_step(tmp_path, 2)
    workers = psutil.Process(process.pid).children()
    assert workers
    for each in [*workers, psutil.Process(process.pid)]:
        each.send_signal(signal.SIGTERM)
    ended(process, 130, 60)
    assert status(run)["state"] == "preempted"
    assert gone(workers)
