"""The wheel holds all that a run needs, and works from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .conftest import TINY

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
        names = archive.namelist()
    return folder, names


def test_defaults_data_licences_and_plugins_are_inside(unpacked):
    _, names = unpacked
    for name in (
        "embedexp/conf/config.yaml",
        "embedexp/conf/hydra/launcher/local.yaml",
        "embedexp/conf/hydra/launcher/slurm.yaml",
        "embedexp/slurm_profiles/a100_8.yaml",
        "embedexp/data/builtin_files/manifest.json",
        "embedexp/data/builtin_files/LICENSE-wordnet",
        "embedexp/py.typed",
        "hydra_plugins/embedexp_local_launcher.py",
        "hydra_plugins/embedexp_slurm_launcher.py",
    ):
        assert name in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("entry_points.txt") for name in names)
    assert not any(name.startswith(("tests", "tools", "docs")) for name in names)


SMALL = ["training.steps=2", "optimizer.warmup_steps=0", "paths.cache=cache"]


@pytest.mark.parametrize(
    "arguments",
    [["--cfg", "job"], ["show", "routing=mote"], ["--help"], [*TINY, *SMALL]],
    ids=["config", "show", "help", "run"],
)
def test_it_works_from_another_folder(unpacked, tmp_path, arguments):
    folder, _ = unpacked
    code = "import embedexp; print(embedexp.__file__); from embedexp.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder / "site")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(folder / "site"))
    assert len(done.stdout.splitlines()) > 10
