"""The running SLURM cluster, shared by the tests' workers; nothing may be left on it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from .slurm import Cluster


def _answers():
    """Whether a cluster's controller answers; SLURM's commands hang for long where none does."""
    if shutil.which("scontrol") is None:
        return False
    try:
        done = subprocess.run(["scontrol", "ping"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def _alone(folder, kind):
    """The cluster without another test of this kind; it must be left without jobs or processes."""
    with FileLock(Path(tempfile.gettempdir()) / f"embedexp-cluster-{kind}.lock"):
        if not _answers():
            pytest.skip("no SLURM cluster answers: start one with slurm/local/start.sh")
        cluster = Cluster(folder, uuid.uuid4().hex)
        yield cluster
        left = cluster.end()
        assert not left, "left behind: " + "; ".join(left)


@pytest.fixture
def cluster(tmp_path):
    """The cluster, for a test that trains: several at a time would wait for each other's cores."""
    with _alone(tmp_path, "training") as cluster:
        yield cluster


@pytest.fixture
def toys(tmp_path):
    """The cluster, with runs that take a moment: what these tests look at is not training."""
    with _alone(tmp_path, "toys") as cluster:
        cluster.stand_in()
        yield cluster
