"""Every benchmark runs, at a size that says nothing, and writes rows."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings

import pytest
import torch

from .conftest import FOLDER

IN_PROCESS = [
    "attention",
    "batches",
    "cosent",
    "dynamic_negatives",
    "encode",
    "gpu",
    "models",
    "routing",
    "scaling",
]
"""Those that need no process of their own."""

OTHERS = [
    "first_step",
    "gradient_cache",
    "infonce",
    "launch",
    "memory",
    "mining",
    "startup",
    "training",
]


def rows_of(path):
    rows = json.loads(path.read_text())
    assert rows
    for row in rows:
        assert row["values"]
        assert all(math.isfinite(value) for value in row["values"])
        assert row["unit"] != "x" or row["low"] > 0


@pytest.mark.parametrize("name", IN_PROCESS)
def test_it_compares(name, script, tmp_path, monkeypatch, capsys):
    path = tmp_path / "rows.json"
    monkeypatch.setattr(sys, "argv", [name, "--tiny", "--json", str(path)])
    threads = torch.get_num_threads()
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        assert not script(name).main()
    torch.set_num_threads(threads)
    rows_of(path)
    assert "FAILED" not in capsys.readouterr().out


@pytest.mark.parametrize("name", OTHERS)
def test_it_compares_processes(name, tmp_path):
    path = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py"), "--tiny", "--json", str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(FOLDER.parent)},
    )
    # 1: a limit was missed, which a busy machine may make happen.
    assert done.returncode in (0, 1), done.stderr
    rows_of(path)
