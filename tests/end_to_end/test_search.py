"""A search that really trains: killed, gone on with, and with trials that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import optuna
import pytest
import torch
from optuna.trial import TrialState
from safetensors.torch import load_file

import embedexp
from embedexp.runs import RunDirectory, State
from embedexp.runs.job import Job, write_job
from embedexp.runs.registry import find
from embedexp.runs.trial import PRUNED, Trial, open_storage
from embedexp.sweeps.search.loop import REASON
from embedexp.training.interrupt import InterruptedRunError

from .conftest import overrides

QUICK = [
    "evaluation.before=false",
    "evaluation.tasks=[WordNetSimilarity]",
    "training.steps=6",
    "training.log_every=1",
]
# Of these -1 is no learning rate, and 1e30 makes the loss NaN.
SPACE = "optimizer.learning_rate=1e-3,2e-3,-1,1e30"
SEED = 7
"""Random trials with it: -1, 1e30, 2e-3, 1e-3."""


def command(folder):
    settings = ["trials=2", "sampler=random", f"seed={SEED}", "objective=WordNetSimilarity"]
    return [
        *[sys.executable, "-m", "embedexp", "-m", "hydra/sweeper=optuna"],
        *overrides(folder, *QUICK, SPACE),
        *[f"hydra.sweeper.{setting}" for setting in settings],
    ]


def study_in(folder):
    (journal,) = (folder / "runs" / ".search").glob("*/journal.log")
    return optuna.load_study(study_name=None, storage=open_storage(str(journal)))


def wait_for(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_killed_search_goes_on_to_its_target_and_runs_each_trial_once(tmp_path):
    output = tmp_path / "output.txt"
    with output.open("w") as file:
        process = subprocess.Popen(command(tmp_path), stdout=file, stderr=subprocess.STDOUT)

    def a_run_trains():
        assert process.poll() is None, output.read_text()
        runs = find(tmp_path / "runs")
        good = [run for run in runs if run.config.optimizer.learning_rate < 1]
        return any(run.status.state is State.RUNNING and run.status.step >= 1 for run in good)

    try:
        wait_for(a_run_trains)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # The run itself is a process of its own, and goes on.
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    study = study_in(tmp_path)
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == 2
    reasons = [t.user_attrs[REASON] for t in study.trials if t.state is TrialState.FAIL]
    assert any(reason.startswith("invalid: ") for reason in reasons)
    assert any(reason.startswith("NaN: ") for reason in reasons)
    for trial in study.trials:
        if trial.state is TrialState.COMPLETE:
            (name,) = trial.user_attrs["runs"]
            run = embedexp.runs.Run(RunDirectory(tmp_path / "runs" / name))
            assert trial.value == run.scores["after"][0]["value"]
            assert run.status.starts == 1
    assert "best     " in done.stdout
    # There is nothing left to do, and nothing is run again.
    before = {run.name: run.status for run in find(tmp_path / "runs")}
    again = subprocess.run(command(tmp_path), capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert "2 of 2 trials complete" in again.stdout
    assert {run.name: run.status for run in find(tmp_path / "runs")} == before


def trial_of(folder, config, study, **changed):
    """Make the run of `config` a trial of `study`, one that reports its score every 2 steps."""
    asked = study.ask()
    run = RunDirectory.of(config)
    run.freeze(config)
    values = {
        "storage": str(folder / "journal.log"),
        "study": study.study_name,
        "number": asked._trial_id,
        "pruner": "asha",
        "by": "score",
        "every": 2,
        "reduction": 2,
        "objective": "WordNetSimilarity",
        "maximize": True,
    }
    Trial(**values | changed).write(run)
    # As if the search had started this very process.
    write_job(run.job_file, Job("local", str(os.getppid()), multirun=study.study_name))
    return run, asked


@pytest.fixture
def study(tmp_path):
    storage = open_storage(str(tmp_path / "journal.log"))
    return optuna.create_study(study_name="s", storage=storage, direction="maximize")


def test_scores_amid_training_change_no_bit_of_it(tmp_path, study):
    plain = embedexp.run(embedexp.compose(overrides(tmp_path / "plain", *QUICK)), quiet=True)
    config = embedexp.compose(overrides(tmp_path, *QUICK))
    _, asked = trial_of(tmp_path, config, study)
    scored = embedexp.run(config, quiet=True)
    reported = study.trials[asked.number].intermediate_values
    assert sorted(reported) == [2, 4]
    assert all(-1 <= value <= 1 for value in reported.values())
    weights = [load_file(run.model / "model.safetensors") for run in (plain, scored)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_pruned_run_is_cancelled_and_can_go_on_later(tmp_path, study):
    best = study.ask()
    for step in (2, 4):
        best.report(1.0, step)  # no run can be better
        best.should_prune()
    config = embedexp.compose(overrides(tmp_path, *QUICK))
    pruned_by = optuna.pruners.SuccessiveHalvingPruner(min_resource=2, reduction_factor=2)
    rival = optuna.load_study(
        study_name="s", storage=open_storage(str(tmp_path / "journal.log")), pruner=pruned_by
    )
    pruned_by.prune(rival, rival.trials[best.number])  # it has passed the rung
    run, asked = trial_of(tmp_path, config, study)
    with pytest.raises(InterruptedRunError):
        embedexp.run(config, quiet=True)
    assert run.status.state is State.CANCELLED
    assert run.status.message == "stopped by its search, which pruned it at step 2"
    assert run.status.step == 2
    assert study.trials[asked.number].user_attrs[PRUNED] == 2
    study.tell(asked.number, state=TrialState.PRUNED)
    # By hand: the job is that of a launcher which is not above this process.
    write_job(run.job_file, Job("local", "1", multirun=study.study_name))
    later = embedexp.run(config, quiet=True)
    assert later.status.state is State.FINISHED
    assert later.status.starts == 2
