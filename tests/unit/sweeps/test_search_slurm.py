"""Trials on a cluster: each is a job of its own, found again by a search that was ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

from embedexp.config.locations import conf_dir
from embedexp.launch import multirun
from embedexp.runs import RunDirectory, State
from embedexp.sweeps.search import runs as search_runs
from embedexp.sweeps.search.objective import Named
from embedexp.sweeps.search.runs import Runs, SlurmPlaces

pytest.importorskip("submitit")
FAKE = Path(__file__).parents[1] / "launch" / "fake" / "slurm"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    commands, folder = tmp_path / "bin", tmp_path / "slurm"
    commands.mkdir()
    folder.mkdir()
    for name in ("sbatch", "sinfo", "scontrol", "srun", "squeue", "sacct"):
        (commands / name).symlink_to(FAKE)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    monkeypatch.setattr(search_runs, "SLURM_POLL_SECONDS", 0.0)
    return folder


def runner(tmp_path):
    text = (conf_dir() / "hydra" / "launcher" / "slurm.yaml").read_text()
    settings = {k: v for k, v in yaml.safe_load(text).items() if k != "_target_"}
    settings |= {"snapshot": False, "time": 5}
    return Runs(
        ["backbone=tiny", "tracking=none", f"paths.runs={tmp_path / 'runs'}"],
        (),
        "test-search-0a1b2c",
        [Named("mean", "maximize")],
        None,
        SlurmPlaces(2, "test-search-0a1b2c", settings, ()),
        ("slurm", settings),
    )


def test_a_trial_is_a_job_of_its_own_and_is_found_again(tmp_path, cluster):
    first = runner(tmp_path)
    (name,) = first.prepare(["loss.temperature=0.03"], 0)
    first.start(name)
    run = RunDirectory(tmp_path / "runs" / name)
    assert run.status.state is State.QUEUED
    assert run.job.launcher == "slurm"
    assert run.job.multirun == "test-search-0a1b2c"
    assert first.result(name) is None
    first.stop()  # the search ends, and the job does not
    assert run.status.state is State.QUEUED
    scripts = len(list(cluster.glob("*.sh")))
    again = runner(tmp_path)
    assert again.prepare(["loss.temperature=0.03"], 0) == [name]
    again.start(name)
    assert len(list(cluster.glob("*.sh"))) == scripts  # nothing is submitted twice
    assert again.result(name) is None
    with run.owned():
        run.start("contrastive")
        run.evaluation.mkdir()
        score = {"task": "A", "type": "STS", "metric": "m", "value": 0.25}
        run.scores_file.write_text(json.dumps({"before": [], "after": [score]}))
        run.finish()
    for one in (first, runner(tmp_path)):
        one.prepare(["loss.temperature=0.03"], 0)
        assert one.result(name).values == (0.25,)
    record = multirun.read(multirun.file_of("test-search-0a1b2c", tmp_path / "runs"))
    assert [cell.run for cell in record.cells] == [name]
    assert record.launcher == "slurm"


def test_a_job_that_fails_is_a_trial_without_a_value(tmp_path, cluster):
    one = runner(tmp_path)
    (name,) = one.prepare(["loss.temperature=0.04"], 0)
    one.start(name)
    run = RunDirectory(tmp_path / "runs" / name)
    with run.owned():
        run.start("contrastive")
        run.fail("loss is NaN at step 3", None)
    result = one.result(name)
    assert result.values is None
    assert "loss is NaN at step 3" in result.reason


def test_a_trial_replaces_what_all_trials_share(tmp_path, cluster):
    one = runner(tmp_path)
    one._fixed += ["routing=moe", "training.steps=9"]
    ((texts, config),) = one.compose(["routing=dense", "training.steps=7"])
    assert (config.routing.name, config.training.steps) == ("dense", 7)
    assert "routing=moe" not in texts  # which Hydra would refuse beside the other
