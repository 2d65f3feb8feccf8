"""The cluster as a test sees it: commands as a user types them, and waiting with a deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from embedexp.runs import RunDirectory
from tests.end_to_end.conftest import TINY

ROOT = Path(__file__).parents[2]
STAND_IN = Path(__file__).parent / "standin"
TAG = "EMBEDEXP_CLUSTER_TEST"
# Three test workers share two cores with the cluster: nothing here is slower than this.
PATIENCE = 240.0
RUN = [
    *(item for item in TINY if not item.startswith("evaluation.")),
    "backbone.dropout=0",
    "compute.workers=0",
]


def wait_until(condition, what, seconds=PATIENCE):
    """What `condition()` returns once it is true; `what` is said, or asked, when it never is."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        if time.monotonic() > deadline:
            said = what() if callable(what) else what
            raise AssertionError(f"after {seconds:.0f} s: {said}")
        time.sleep(0.2)


def slurm(*command, check=True):
    """What one of SLURM's commands prints."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
    return done.stdout


def accounted(job):
    """The state that SLURM's accounts give for a job, without remarks (CANCELLED by 0)."""
    lines = slurm("sacct", "-n", "-X", "-P", "-j", str(job), "-o", "State").split("\n")
    return lines[0].partition(" ")[0]


class Cluster:
    """Runs below one folder of one test, and the jobs that compute them."""

    def __init__(self, folder, tag):
        self.folder = folder
        self.runs_folder = folder / "runs"
        self.tag = tag
        self.project = ROOT
        # Tables keep their lines whole.
        self.environment = {**os.environ, TAG: tag, "OMP_NUM_THREADS": "1", "COLUMNS": "240"}

    def stand_in(self):
        """From now on, runs are without a model: see `standin/sitecustomize.py`."""
        self.environment["PYTHONPATH"] = str(STAND_IN)

    def move_to(self, project):
        """From now on, commands are those of another checkout."""
        self.project = project

    def command(self, *arguments, expect=0, seconds=PATIENCE):
        """The output of `python -m embedexp ...`, which must exit with the code `expect`."""
        done = subprocess.run(
            [sys.executable, "-m", "embedexp", *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == expect, f"exit code {done.returncode}: {done.stdout}"
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout

    def overrides(self, *more):
        """A small run below this test's folder."""
        cache = self.folder.parent / "cache"  # tokenised once for all tests of a worker
        return [*RUN, f"paths.runs={self.runs_folder}", f"paths.cache={cache}", *more]

    def submit(self, *more, expect=0, wait=False):
        """Start a multirun on the cluster."""
        launcher = ["hydra/launcher=slurm", f"hydra.launcher.wait={str(wait).lower()}"]
        return self.command("-m", *self.overrides(*launcher, *more), expect=expect)

    def run_here(self, *more):
        """The directory of a run computed on this machine, outside the cluster and its `runs`."""
        elsewhere = self.folder / "here"
        self.command(*self.overrides(*more, f"paths.runs={elsewhere}"))
        (config,) = elsewhere.glob("*/config.yaml")
        return RunDirectory(config.parent)

    def runs(self):
        """The run directories."""
        return sorted(path.parent for path in self.runs_folder.glob("*/config.yaml"))

    def run(self, **keys):
        """The run directory whose config has these values: `seed=3`."""
        found = [
            run
            for run in map(RunDirectory, self.runs())
            if all(getattr(run.config, key) == value for key, value in keys.items())
        ]
        assert len(found) == 1, f"{len(found)} runs with {keys} below {self.runs_folder}"
        return found[0]

    def job(self, run):
        """SLURM's id of the job that computes `run`."""
        job = run.job
        assert job is not None, f"nobody has submitted {run.name}"
        assert job.launcher == "slurm", job
        assert job.id, job
        return job.id

    def wait_for_state(self, run, *states, seconds=PATIENCE):
        """Wait until `run`'s own status is one of `states`; shows its log when it never is."""
        return wait_until(
            lambda: run.status.state in states and run.status.state,
            lambda: f"{run.name} is {run.status.shown}, not {states}\n{self.log(run)}",
            seconds,
        )

    def wait_for_step(self, run, step, seconds=PATIENCE):
        """Wait until `run` has written down so many optimizer steps."""
        return wait_until(
            lambda: len(run.metrics.read()) >= step,
            lambda: f"{run.name} has not reached step {step}: {run.status}\n{self.log(run)}",
            seconds,
        )

    def wait_for_job(self, job, *states, seconds=PATIENCE):
        """Wait until SLURM's accounts, which lag behind by seconds, say one of `states`."""
        return wait_until(
            lambda: accounted(job) in states and accounted(job),
            lambda: f"job {job} is {accounted(job)}, not {states}",
            seconds,
        )

    def log(self, run, lines=30):
        """The end of what the run and its job have printed."""
        files = [*run.path.glob("*.txt"), *self.runs_folder.glob(f".multirun/**/*{run.name}*.log")]
        if run.job is not None and run.job.log:
            files.append(Path(run.job.log))
        texts = [
            f"--- {file}\n" + "\n".join(file.read_text(errors="replace").splitlines()[-lines:])
            for file in dict.fromkeys(files)
            if file.is_file()
        ]
        return "\n".join([*texts, slurm("squeue", "-l", check=False)])

    def jobs(self):
        """Ids of the jobs that SLURM still holds for runs of this test."""
        listed = slurm("squeue", "-h", "-r", "-o", "%i %o %Z").splitlines()
        return [line.split()[0] for line in listed if str(self.folder) in line]

    def processes(self):
        """Processes that this test's commands and jobs have started and that still live."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(TAG) == self.tag and process.status() != "zombie":
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def end(self):
        """Cancel and kill what is left; returns it in words, and nothing when all is gone."""
        left = []
        try:
            wait_until(lambda: not self.jobs() and not self.processes(), "", 20)
        except AssertionError:
            left = [f"job {job}" for job in self.jobs()]
            left += [f"process {p.pid}: {' '.join(p.cmdline())[-200:]}" for p in self.processes()]
            if jobs := self.jobs():
                slurm("scancel", *jobs, check=False)
            for process in self.processes():
                process.send_signal(signal.SIGKILL)
            for job in self.jobs():
                slurm("scancel", "--full", "--signal=KILL", job, check=False)
        return left
