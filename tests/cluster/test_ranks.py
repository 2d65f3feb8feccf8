"""A run on several nodes is the same run as on one, whatever happens to it on the way."""

from __future__ import annotations

import hashlib
import json

import pytest

from embedexp.runs import State

from .slurm import slurm, wait_until

FSDP = ["compute=fsdp", "compute.accelerator=cpu", "compute.workers=0", "compute.threads=1"]
# The same threads on both shapes: sums of another order are other sums in their last bits.
DDP = ["compute=ddp", "compute.accelerator=cpu", "compute.workers=0", "compute.threads=1"]
STEPS = 120
# One epoch, of which there is always enough left to be preempted in.
LONG = ["evaluation=none", f"training.steps={STEPS}", "data.max_examples=8000"]
LONG += ["training.checkpoint_every=1000"]
BATCHES = ("step", "tokens", "tasks", "hard_negatives")


def metrics(run, *names):
    """The named values of each optimizer step's line."""
    lines = [line for line in run.metrics.read() if "loss" in line]
    return [tuple(line[name] for name in names) for line in lines]


def losses(run):
    return [loss for (loss,) in metrics(run, "loss")]


def digest(run):
    """Hash of the trained weights."""
    return hashlib.sha256((run.model / "model.safetensors").read_bytes()).hexdigest()


def restarts(job):
    """How often SLURM has requeued a job."""
    shown = slurm("scontrol", "-o", "show", "job", str(job))
    return int(shown.partition("Restarts=")[2].split()[0])


def scores(run):
    content = json.loads(run.scores_file.read_text())
    return [score["value"] for score in content["after"]]


def test_fsdp_on_two_nodes_trains_as_one_process_does(cluster):
    few = ["evaluation.max_queries=40", "evaluation.max_documents=100"]
    few += ["evaluation.tasks=[WordNetDefinitions]"]
    cluster.submit(*FSDP, *few, "compute.nodes=2", "compute.devices=2")
    run = cluster.run(seed=0)
    alone = cluster.run_here(*few)
    cluster.wait_for_state(run, State.FINISHED)
    assert run.name == alone.name
    assert metrics(run, *BATCHES) == metrics(alone, *BATCHES)
    assert len(losses(run)) == 12
    assert losses(run) == pytest.approx(losses(alone), rel=1e-4)
    assert scores(run) == pytest.approx(scores(alone), abs=1e-3)
    cluster.wait_for_job(cluster.job(run), "COMPLETED")


def test_a_run_preempted_twice_in_one_epoch_ends_bit_equal(cluster):
    ranks = [*DDP, *LONG]
    # So many of each node's eight cores that the other job fits only in its place.
    low = ["hydra.launcher.partition=low", "hydra.launcher.cpus_per_task=6"]
    cluster.submit(*ranks, *low, "compute.nodes=2", "compute.devices=1")
    run = cluster.run(seed=0)
    job = cluster.job(run)

    cluster.wait_for_step(run, 5)
    slurm("scancel", "--signal=USR2", job)
    wait_until(lambda: restarts(job) == 1, lambda: cluster.log(run))
    first = run.status.step
    assert 5 <= first < STEPS, "the first preemption came too late"

    cluster.wait_for_step(run, first + 5)
    # The scheduler itself preempts it, for a job of the partition `high`.
    slurm("srun", "-p", "high", "-N2", "--ntasks-per-node=1", "--cpus-per-task=6", "true")
    second = run.status.step
    assert first + 5 <= second < STEPS, "the second preemption came too late"
    assert restarts(job) == 2

    reference = cluster.run_here(*ranks, "compute.nodes=1", "compute.devices=2")
    cluster.wait_for_state(run, State.FINISHED)
    assert run.name == reference.name
    assert metrics(run, *BATCHES, "loss") == metrics(reference, *BATCHES, "loss")
    assert len(losses(run)) == STEPS
    assert digest(run) == digest(reference)


def test_a_run_stopped_on_two_ranks_goes_on_alone_with_the_same_batches(cluster):
    cluster.submit(*DDP, *LONG, "compute.nodes=1", "compute.devices=2")
    run = cluster.run(seed=0)
    cluster.wait_for_step(run, 5)
    cluster.command("cancel", str(run.path))
    cluster.wait_for_state(run, State.CANCELLED)
    stopped = run.status.step
    assert 5 <= stopped < STEPS
    wait_until(lambda: not cluster.jobs(), "the cancelled job is still there")

    cluster.command(*cluster.overrides(*LONG))
    assert run.status.state is State.FINISHED
    assert f"resumed from {run.checkpoints}/step-{stopped:08d}" in run.log_file.read_text(), (
        "it did not go on from there"
    )
    reference = cluster.run_here(*LONG)
    assert metrics(run, *BATCHES) == metrics(reference, *BATCHES)
    assert losses(run) == pytest.approx(losses(reference), rel=1e-2)
