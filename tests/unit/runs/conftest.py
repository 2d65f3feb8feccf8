from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from embedexp.config import compose
from embedexp.runs import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from embedexp.config import Config

# A process that owns the run in argv[1], says so, and lives until it is killed.
HOLDER = """
import sys, time
from embedexp.runs import RunDirectory
run = RunDirectory(sys.argv[1])
with run.owned():
    run.start("contrastive", total_steps=60, seed=0)
    run.update(step=7)
    print("owned", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="session")
def default_config() -> Config:
    return compose(["backbone=tiny", "tracking=none"])


@pytest.fixture
def config(default_config: Config, tmp_path: Path) -> Config:
    paths = default_config.paths.model_copy(update={"runs": str(tmp_path / "runs")})
    return default_config.model_copy(update={"paths": paths})


@pytest.fixture
def run(config: Config) -> RunDirectory:
    directory = RunDirectory.of(config)
    directory.freeze(config)
    return directory


@pytest.fixture
def hold() -> Iterator[Callable[[RunDirectory], subprocess.Popen[str]]]:
    """Start a second process that owns a run; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(directory: RunDirectory) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory.path)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
