"""Cells of a multirun go through SLURM each on its own, and are operated from any other shell."""

from __future__ import annotations

import re
import shutil

from embedexp.runs import FailureKind, State

from .slurm import ROOT, slurm, wait_until

# Nothing starts before `scontrol release`.
HELD = "+hydra.launcher.extra.hold=true"


def multirun(cluster):
    """The id of the only multirun."""
    (record,) = (cluster.runs_folder / ".multirun").glob("*.json")
    return record.stem


def status(cluster):
    """The table of the only multirun."""
    return cluster.command("status", multirun(cluster), "--runs", str(cluster.runs_folder))


def line_of(text, run):
    """The only line of a table that is about `run`: by its name, or by what sets it apart."""
    names = (run.signature, f"seed={run.config.seed} ")
    lines = [line for line in text.splitlines() if any(name in line for name in names)]
    assert len(lines) == 1, text
    return lines[0]


def test_good_raising_killed_and_timing_out_cells_are_told_apart_and_retried(toys):
    toys.submit("seed=1,11,12,14", "hydra.launcher.time=1")
    runs = {seed: toys.run(seed=seed) for seed in (1, 11, 12, 14)}
    jobs = {seed: toys.job(run) for seed, run in runs.items()}
    assert len(set(jobs.values())) == 4
    assert len({job.partition("_")[0] for job in jobs.values()}) == 1, "one array for one shape"
    toys.wait_for_job(jobs[1], "COMPLETED")
    # SLURM, too, hears of failures: its own tools and dependencies must not be deceived.
    toys.wait_for_job(jobs[11], "FAILED")
    toys.wait_for_job(jobs[12], "FAILED")
    toys.wait_for_job(jobs[14], "TIMEOUT")

    # A status says running until its last sign of life is some seconds old.
    table = wait_until(
        lambda: "running" not in (text := status(toys)) and text, lambda: status(toys), 60
    )
    assert "finished" in line_of(table, runs[1])
    assert "NaN" in line_of(table, runs[11])
    assert "killed" in line_of(table, runs[12])
    assert "timeout" in line_of(table, runs[14])
    kinds = {seed: run.status.failure for seed, run in runs.items()}
    assert kinds == {
        1: None,
        11: FailureKind.NAN,
        12: FailureKind.KILLED,
        14: FailureKind.TIMEOUT,
    }
    assert "FloatingPointError" in runs[11].status.traceback
    assert "FloatingPointError" in runs[11].log_file.read_text()

    toys.command("retry", multirun(toys), "--only", "timeout", "--runs", str(toys.runs_folder))
    again = {seed: toys.job(run) for seed, run in runs.items()}
    assert [seed for seed in runs if again[seed] != jobs[seed]] == [14]
    assert "TimeLimit=00:01:00" in slurm("scontrol", "show", "job", again[14]), "not as before"
    toys.wait_for_state(runs[14], State.RUNNING)
    toys.command("retry", multirun(toys), "--only", "nan", "--runs", str(toys.runs_folder))
    third = {seed: toys.job(run) for seed, run in runs.items()}
    assert [seed for seed in runs if third[seed] != again[seed]] == [11]
    toys.wait_for_job(third[11], "FAILED")

    # It hears no signal, so that SLURM ends it; what was asked for still counts.
    toys.command("cancel", str(runs[14].path))
    wait_until(lambda: not toys.jobs(), lambda: toys.log(runs[14]))
    wait_until(lambda: "cancelled" in line_of(status(toys), runs[14]), lambda: status(toys), 60)


def test_waiting_tells_by_exit_code_and_table_that_a_cell_failed(toys):
    output = toys.submit("seed=1,11", wait=True, expect=1)
    assert re.search(r"seed=1 +finished ", output), output
    assert re.search(r"seed=11 +failed: NaN ", output), output
    again = toys.submit("seed=1", wait=True)
    assert "1 finished already" in again
    assert "submitted" not in again


def test_cancelling_a_pending_cell_leaves_it_out_and_a_running_one_saves(toys):
    toys.submit("seed=13")
    toys.submit("seed=1,2", HELD)
    running, pending, other = (toys.run(seed=seed) for seed in (13, 1, 2))
    toys.wait_for_state(running, State.RUNNING)
    toys.command("cancel", pending.name, running.name, "--runs", str(toys.runs_folder))
    assert pending.status.state is State.CANCELLED
    assert toys.job(pending) not in toys.jobs()
    toys.wait_for_state(running, State.CANCELLED)
    assert running.status.step == 1
    slurm("scontrol", "release", toys.job(other))
    toys.wait_for_state(other, State.FINISHED)
    assert pending.status.state is State.CANCELLED
    assert not pending.scores_file.exists()


def test_editing_conf_and_code_after_submission_changes_nothing_pending(toys):
    project = toys.folder / "project"
    for name in ("embedexp", "hydra_plugins", "conf", "slurm/profiles"):
        if (ROOT / name).is_dir():
            hidden = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, project / name, ignore=hidden)
    toys.move_to(project)
    toys.submit("seed=1", HELD)
    run = toys.run(seed=1)
    before = run.config_file.read_bytes()
    for path in (project / "conf").rglob("*.yaml"):
        path.write_text("edited: {half\n")
    for path in (project / "embedexp").rglob("*.py"):
        path.write_text("raise RuntimeError('edited')\n")
    slurm("scontrol", "release", toys.job(run))
    toys.wait_for_state(run, State.FINISHED)
    assert run.config_file.read_bytes() == before


def test_a_chain_starts_each_link_only_after_its_predecessor(toys):
    toys.submit("seed=1", HELD)
    first = toys.job(toys.run(seed=1))
    toys.submit("seed=2", f"hydra.launcher.dependency=afterok:{first}")
    second = toys.job(toys.run(seed=2))
    toys.submit("seed=3", f"hydra.launcher.dependency=afterok:{second}")
    last = toys.run(seed=3)
    table = toys.command("status", "--runs", str(toys.runs_folder))
    assert "waiting for the job that it depends on" in line_of(table, last)
    slurm("scontrol", "release", first)
    toys.wait_for_state(last, State.FINISHED)
    ends = [toys.run(seed=seed).status.finished for seed in (1, 2, 3)]
    assert ends == sorted(ends)


def test_a_link_whose_predecessor_failed_never_starts(toys):
    toys.submit("seed=11", HELD)
    first = toys.job(toys.run(seed=11))
    toys.submit("seed=1", f"hydra.launcher.dependency=afterok:{first}")
    link = toys.run(seed=1)
    slurm("scontrol", "release", first)
    toys.wait_for_job(first, "FAILED")
    toys.wait_for_job(toys.job(link), "CANCELLED")
    table = toys.command("status", "--runs", str(toys.runs_folder))
    assert "cancelled" in line_of(table, link)
    assert not link.scores_file.exists()
