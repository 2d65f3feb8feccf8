"""environment.json says with what a run was computed, and gives no secret away."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from embedexp.runs import environment as module
from embedexp.runs.environment import environment, write_environment

if TYPE_CHECKING:
    from pathlib import Path


def test_versions_threads_seed_and_data_are_there() -> None:
    found = environment(seed=3, data_fingerprint="abc")
    assert found["packages"]["pydantic"]
    assert found["hardware"]["cores"] >= 1
    assert (found["seed"], found["data_fingerprint"]) == (3, "abc")


def test_only_listed_variables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghijklmnopqrstuvwxyz")
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    found = environment()
    assert found["variables"]["SLURM_JOB_ID"] == "42"
    assert "hf_abc" not in json.dumps(found)
    assert "0123456789abcdef" not in json.dumps(found)


def _git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True)


def test_changes_to_the_code_are_told_by_name_and_hash_never_by_text(tmp_path: Path) -> None:
    package = tmp_path / "embedexp"
    package.mkdir()
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-q", "-m", "first")
    clean = module.code_version(package)
    assert clean is not None
    assert not clean["dirty"]

    (package / "__init__.py").write_text("PASSWORD = 'hunter2'")
    (package / "new.py").write_text("KEY = 'hunter3'")
    (tmp_path / "notes.txt").write_text("hunter4")
    dirty = module.code_version(package)
    assert dirty is not None
    assert dirty["commit"] == clean["commit"]
    assert dirty["changed_files"] == ["embedexp/__init__.py"]
    assert dirty["untracked_files"] == ["embedexp/new.py"]
    assert "hunter" not in json.dumps(dirty)

    (package / "new.py").write_text("KEY = 'hunter5'")
    assert module.code_version(package)["changes_sha256"] != dirty["changes_sha256"]  # type: ignore[index]


def test_package_in_someone_elses_repository_is_not_its_code(tmp_path: Path) -> None:
    package = tmp_path / "venv" / "embedexp"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    _git(tmp_path, "init", "-q")
    assert module.code_version(package) is None


def test_resume_elsewhere_keeps_both_environments(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    write_environment(path, {"written": "1", "host": "a"})
    write_environment(path, {"written": "2", "host": "a"})
    assert "earlier" not in json.loads(path.read_text())
    write_environment(path, {"written": "3", "host": "b"})
    content = json.loads(path.read_text())
    assert content["host"] == "b"
    assert [item["host"] for item in content["earlier"]] == ["a"]
