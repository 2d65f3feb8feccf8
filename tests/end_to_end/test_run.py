"""A run leaves what it promises, and is reused, resumed and owned by one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import embedexp
from embedexp.config import Config
from embedexp.config.errors import UserError
from embedexp.training import checkpoint
from embedexp.training.interrupt import InterruptedRunError, StopRequest

from .conftest import overrides

ROOT = Path(__file__).parents[2]


def weights(run) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in load_file(run.model / "model.safetensors").items()}


def losses(run) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in run.metrics()]


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_a_run_directory_holds_everything(finished):
    names = {p.name for p in finished.path.iterdir()}
    assert {"config.yaml", "status.json", "metrics.jsonl", "environment.json"} <= names
    assert {"log.txt", "model", "evaluation", "plot.png"} <= names
    assert [step for step, _ in losses(finished)] == list(range(1, 13))
    status = json.loads((finished.path / "status.json").read_text())
    assert status["state"] == "finished"
    assert status["step"] == status["total_steps"] == 12
    assert {s["task"] for s in finished.scores["after"]} == {
        "WordNetDefinitions",
        "WordNetSimilarity",
    }
    assert len(finished.scores["before"]) == len(finished.scores["after"])


def test_the_learning_rate_of_a_step_is_the_one_it_was_taken_with(finished):
    rates = [line["learning_rate"] for line in finished.metrics()]
    falling = [1e-3 * (1 - done / 10) for done in range(10)]
    assert rates == pytest.approx([0.5e-3, 1e-3, *falling])


def test_the_frozen_config_is_the_experiment(finished):
    config = Config.load(finished.path / "config.yaml")
    assert finished.path.name == config.run_name
    assert config.signature == finished.path.name.rpartition("-")[2]


def test_a_run_without_evaluation_speaks_of_none(tmp_path, capsys):
    options = [item for item in overrides(tmp_path) if not item.startswith("evaluation.")]
    run = embedexp.run(embedexp.compose([*options, "evaluation=none"]))
    assert run.scores == {"before": [], "after": []}
    assert "scoring" not in capsys.readouterr().out


def test_a_finished_run_is_reused_and_rerun_gives_the_same_bits(finished):
    config = Config.load(finished.path / "config.yaml")
    before, written = weights(finished), (finished.model / "model.safetensors").stat().st_mtime_ns
    again = embedexp.run(config, quiet=True)
    assert (again.model / "model.safetensors").stat().st_mtime_ns == written
    repeated = embedexp.run(config.model_copy(update={"rerun": True}), quiet=True)
    assert (repeated.model / "model.safetensors").stat().st_mtime_ns > written
    assert same(weights(repeated), before)


@pytest.mark.parametrize("stops", [(6,), (3, 9)], ids=["once", "twice"])
def test_an_interrupted_run_ends_bit_equal(finished, tmp_path, interrupted, stops):
    config = embedexp.compose(overrides(tmp_path))
    for step in stops:
        interrupted(config, step)
        status = json.loads((tmp_path / "runs" / config.run_name / "status.json").read_text())
        assert (status["state"], status["step"]) == ("preempted", step)
    resumed = embedexp.run(config, quiet=True)
    assert losses(resumed) == losses(finished)
    assert same(weights(resumed), weights(finished))
    assert [s["value"] for s in resumed.scores["after"]] == [
        s["value"] for s in finished.scores["after"]
    ]


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "embedexp", *overrides(folder, *more)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for_step(folder: Path, step: int, seconds: float = 120) -> Path:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for path in (folder / "runs").glob("*/metrics.jsonl"):
            if len(path.read_text().splitlines()) >= step:
                return path.parent
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached in {seconds} s")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_process_loses_nothing_but_the_steps_since_its_checkpoint(tmp_path, how):
    long = ("training.steps=400", "training.checkpoint_every=5")
    process = start(tmp_path, *long)
    run = wait_for_step(tmp_path, 12)
    process.send_signal(how)
    output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output
    if how != signal.SIGKILL:
        assert process.returncode == 130, output
        assert "the same command" in output
    reached = len((run / "metrics.jsonl").read_text().splitlines())
    assert checkpoint.latest(run / "checkpoints") is not None
    process = start(tmp_path, *long)
    wait_for_step(tmp_path, reached + 10)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))


def test_two_processes_cannot_run_one_experiment(tmp_path):
    process = start(tmp_path, "training.steps=400")
    run = wait_for_step(tmp_path, 1)
    second = start(tmp_path, "training.steps=400")
    output, _ = second.communicate(timeout=60)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert second.returncode == 2
    assert f"process {process.pid}" in output
    assert len(output.strip().splitlines()) <= 3
    assert run.is_dir()


def test_a_failing_run_says_so_and_can_be_run_again(tmp_path, monkeypatch):
    from embedexp.training.module import EmbeddingModule, NonFiniteLossError

    config = embedexp.compose(overrides(tmp_path))
    kept = EmbeddingModule.training_step

    def broken(self, batch, index):
        if self.global_step == 5:
            raise NonFiniteLossError("the loss is nan at step 6")
        return kept(self, batch, index)

    monkeypatch.setattr(EmbeddingModule, "training_step", broken)
    with pytest.raises(NonFiniteLossError):
        embedexp.run(config, quiet=True)
    status = json.loads((tmp_path / "runs" / config.run_name / "status.json").read_text())
    assert (status["state"], status["failure"]) == ("failed", "NaN")
    assert "NonFiniteLossError" in status["traceback"]
    monkeypatch.setattr(EmbeddingModule, "training_step", kept)
    assert [step for step, _ in losses(embedexp.run(config, quiet=True))] == list(range(1, 13))


def test_a_damaged_checkpoint_is_passed_over(tmp_path, finished):
    config = embedexp.compose(overrides(tmp_path))
    checkpoints = tmp_path / "runs" / config.run_name / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "step-00000008").mkdir()
    (checkpoints / "step-00000008" / "__0_0.distcp").write_bytes(b"not a checkpoint")
    run = embedexp.run(config, quiet=True)
    assert "damaged checkpoint" in (run.path / "log.txt").read_text()
    assert same(weights(run), weights(finished))


def test_wandb_writes_beside_the_run_and_nothing_leaves(tmp_path):
    pytest.importorskip("wandb")
    more = ["tracking=wandb", "training.steps=2", "optimizer.warmup_steps=0"]
    run = embedexp.run(embedexp.compose(overrides(tmp_path, *more)), quiet=True)
    (folder,) = (run.path / "wandb").glob("offline-run-*")
    assert folder.name.endswith(run.directory.signature)
    assert (folder / f"run-{run.directory.signature}.wandb").stat().st_size > 0
    assert "W&B" not in (run.path / "log.txt").read_text()


def test_missing_gpu_is_a_short_error(tmp_path, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="sees no GPU"):
        embedexp.run(embedexp.compose(overrides(tmp_path, "compute=gpu")), quiet=True)


def test_stop_requests_restore_handlers():
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest().listening() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
        with pytest.raises(InterruptedRunError, match="SIGTERM"):
            stop.check()
    assert signal.getsignal(signal.SIGTERM) == before
