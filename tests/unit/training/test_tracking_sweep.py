"""Below the agent of a W&B sweep, a run is the one that the sweep has asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from embedexp.config import compose
from embedexp.runs import RunDirectory
from embedexp.stage.execute import _tell_sweep
from embedexp.training import tracking

SWEEP = {"WANDB_SWEEP_ID": "abc123", "WANDB_RUN_ID": "given-by-the-agent"}


def config(*overrides):
    return compose(["backbone=tiny", "tracking.project=ours", *overrides])


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    for name, value in SWEEP.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_without_an_agent_the_run_is_its_signature_and_offline(monkeypatch):
    monkeypatch.delenv("WANDB_SWEEP_ID", raising=False)
    composed = config()
    assert tracking.identity(composed) == {
        "id": composed.signature,
        "project": "ours",
        "entity": None,
        "group": None,
        "mode": "offline",
    }


def test_below_an_agent_the_run_is_online_in_the_sweeps_group(agent):
    assert tracking.identity(config()) == {"mode": "online", "group": "abc123"}
    assert tracking.identity(config("tracking.group=mine"))["group"] == "mine"
    agent.setenv("WANDB_MODE", "offline")
    assert tracking.identity(config())["mode"] == "offline"


def test_a_sweep_hears_what_a_run_that_had_finished_has_come_to(tmp_path, agent):
    """Its metric may be the loss, of which nothing is logged again."""
    composed = config(f"paths.runs={tmp_path}")
    directory = RunDirectory.of(composed)
    directory.evaluation.mkdir(parents=True)
    score = {"task": "A", "type": "STS", "metric": "m", "value": 0.25, "seconds": 1.0}
    content = {"before": [], "after": [score | {"fingerprint": "x"}]}
    directory.scores_file.write_text(json.dumps(content))
    for step, loss in enumerate((3.0, 2.0), 1):
        directory.metrics.append({"step": step, "loss": loss})
    told = {}
    tracker = SimpleNamespace(summary=told.update, close=lambda: None)
    agent.setattr(tracking, "start", lambda *_: tracker)
    _tell_sweep(composed, directory)
    assert told == {"scores/A": 0.25, "scores/mean": 0.25, "loss": 2.0}


STARTED = """
import sys
from pathlib import Path
from embedexp.config import compose
from embedexp.training import tracking
import wandb
tracker = tracking.start(compose(["backbone=tiny"]), Path(sys.argv[1]))
print(wandb.run.id, wandb.run.settings.sweep_id, wandb.run.group)
tracker({"loss": 1.0}, 1)
tracker.close()
"""


def test_wandb_takes_the_id_that_the_agent_gives(tmp_path):
    pytest.importorskip("wandb")
    # A process of its own: W&B keeps what it has read from the environment.
    done = subprocess.run(
        [sys.executable, "-c", STARTED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **SWEEP, "WANDB_MODE": "offline"},
    )
    assert done.stdout.split() == ["given-by-the-agent", "abc123", "abc123"]
    assert "Ignoring" not in done.stderr
