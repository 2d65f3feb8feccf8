from __future__ import annotations

import pytest

from embedexp.config import compose
from embedexp.launch import order
from embedexp.launch.order import Watch
from embedexp.runs import RunDirectory, State
from embedexp.runs.job import Job, write_job


@pytest.fixture
def preempted(base, monkeypatch):
    """A run that was stopped, and a watch that looks each time it is asked."""
    monkeypatch.setattr(order, "LOOK_SECONDS", -1.0)
    config = compose(base)
    run = RunDirectory.of(config)
    run.freeze(config)
    with run.owned():
        run.start("contrastive")
        run.preempt("stopped by SIGTERM")
    return run


def test_a_run_between_preemption_and_requeueing_is_still_waited_for(preempted, monkeypatch):
    write_job(preempted.job_file, Job("slurm", "12", multirun="m"))
    watch = Watch()
    assert watch.state(preempted.path) == State.QUEUED
    with preempted.owned():
        preempted.start("contrastive")  # SLURM has started the job once more
        assert watch.state(preempted.path) == State.RUNNING
        preempted.preempt("stopped by SIGTERM")
    assert watch.state(preempted.path) == State.QUEUED
    monkeypatch.setattr(order, "CALM_SECONDS", 0.0)
    assert watch.state(preempted.path) == State.PREEMPTED


def test_nobody_starts_a_run_of_this_machine_once_more(preempted):
    write_job(preempted.job_file, Job("local", "1"))
    assert Watch().state(preempted.path) == State.PREEMPTED


def test_a_run_that_has_failed_is_not_waited_for(preempted):
    write_job(preempted.job_file, Job("slurm", "12"))
    with preempted.owned():
        preempted.start("contrastive")
        preempted.fail("the loss is NaN")
    assert Watch().state(preempted.path) == State.FAILED
