"""The README's commands work as they stand there; runs are only made shorter."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import TINY

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Lines of indented or fenced blocks that call the command line, without their comments."""
    lines = re.findall(r"^(?: {4})?\$? ?(python -m embedexp.*)$", README, re.MULTILINE)
    return list(dict.fromkeys(re.split(r"\s#", line)[0].strip() for line in lines))


def test_there_are_commands_to_check():
    assert any("routing=mote mask_schedule=linear" in c for c in commands())
    assert any("-m routing=dense,moe" in c for c in commands())


@pytest.fixture(scope="session")
def home(tmp_path_factory, finished):
    """A folder to run in, with one finished run that RUN stands for."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "runs").mkdir()
    (folder / "runs" / finished.path.name).symlink_to(finished.path)
    pairs = [{"question": f"what is {i}?", "answer": f"the number {i}"} for i in range(700)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return folder, f"runs/{finished.path.name}"


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_works(command, home):
    folder, run = home
    words = [run if w == "RUN" else w for w in shlex.split(command)[1:]]
    is_run = len(words) == 2 or words[2].startswith("-m") or "=" in words[2]
    if is_run and "--cfg" not in words and "--help" not in words:
        shorter = [o for o in TINY if "data=jsonl" not in words or not o.startswith("data.")]
        words += [*shorter, "training.steps=2", "optimizer.warmup_steps=0"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "EMBEDEXP_CACHE": str(folder / "cache")},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout.strip()
    assert {p.name for p in folder.iterdir()} <= {"runs", "cache", "pairs.jsonl", "mask.png"}


def test_numbers_come_from_named_commands():
    """Every fenced output block says which command printed it."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        assert block.startswith("$ "), block.splitlines()[0]
