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

from embedexp.sweeps.file import find, read
from embedexp.sweeps.planning import plan
from tests.unit.sweeps.report_help import finish_all

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
    (folder / "texts.txt").write_text("a small furry animal\na large one\n")
    return folder, f"runs/{finished.path.name}"


MODEL = ("training.", "batching.", "optimizer.", "backbone", "data.")
UNUSED = {
    "stage=mine": (*(prefix for prefix in MODEL if prefix != "data."), "evaluation."),
    "stage=mlm": ("evaluation.",),
    "stage=merge": MODEL,
    "stage=analyse": MODEL,
}
"""What of the tiny run's settings a stage has no use for."""

COMPOSED = ("evaluation=mteb", "+paper=nomic_embed_v2/pretrain", "stage=probe")
"""Words of commands that need a network or minutes: their experiment is composed and checked."""

SWEEP = "sweeps/nomic_embed_v2/table7_expert_placement.yaml"
AFTER = ("table", "report", "compare")
"""Commands that look at finished runs of `SWEEP`, which its own command only plans."""

LEFT = {
    "runs", "cache", "pairs.jsonl", "texts.txt", "mask.png", "FOLDER", "vectors.npy",
    "vectors.npy.json", ".vectors.npy.lock", "table.md", "report.html",
}  # fmt: skip


def shorter(words: list[str]) -> list[str]:
    """Settings that make a run of the README's take seconds."""
    unused = [prefix for stage in words for prefix in UNUSED.get(stage, ())]
    unused += ["data."] if "data=jsonl" in words else []
    short = [*TINY, "training.steps=2", "optimizer.warmup_steps=0"]
    return [word for word in short if not word.startswith(tuple(unused))]


def execute(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "EMBEDEXP_CACHE": str(folder / "cache")},
        timeout=300,
    )


@pytest.fixture(scope="session")
def mined(home):
    """The path of a run that mined negatives, as its command prints it."""
    words = ["-m", "embedexp", "stage=mine", "name=mined"]
    done = execute([*words, *shorter(words)], home[0])
    assert done.returncode == 0, done.stdout + done.stderr
    return re.search(r"runs/mined-\w+", done.stdout)[0]


@pytest.fixture(scope="session")
def swept(home):
    """The paths of runs of `SWEEP` that look finished; to have them learn would take an hour."""
    folder, _ = home
    found = plan(read(find(SWEEP)), ["scale=demo", f"paths.runs={folder}/runs"])
    finish_all(found, everything=False)
    return [f"runs/{run.directory.name}" for run in found.runs]


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_works(command, home, request):
    folder, run = home
    words = shlex.split(command)[1:]
    if "negatives.path=RUN" in words:
        path = f"negatives.path={request.getfixturevalue('mined')}"
        words[words.index("negatives.path=RUN")] = path
    command_name = words[2] if len(words) > 2 else ""
    if command_name in AFTER:
        runs = iter(request.getfixturevalue("swept"))
        words = [next(runs) if word == "RUN" else word for word in words]
    words = [re.sub(r"\bRUN\b", run, word) for word in words]
    is_run = len(words) == 2 or words[2].startswith("-m") or "=" in words[2]
    if any(word in COMPOSED for word in words):
        words += ["--cfg", "job"]
    elif is_run and "--cfg" not in words and "--help" not in words:
        words += shorter(words)
    words = [re.sub(r"(hydra\.sweeper\.trials)=\d+", r"\1=2", word) for word in words]
    if command_name == "sweep":
        words.append("--plan")
    done = execute(words, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout.strip()
    assert {p.name for p in folder.iterdir()} <= LEFT
    if "--to" in words:
        assert (folder / words[words.index("--to") + 1]).exists()


def test_numbers_come_from_named_commands():
    """Every fenced output block says which command printed it."""
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        assert block.startswith("$ "), block.splitlines()[0]
