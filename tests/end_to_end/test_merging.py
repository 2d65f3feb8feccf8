"""stage=merge leaves a model, its scores and where it came from, and goes on after a stop."""

from __future__ import annotations

import json

import mteb
import pytest

import embedexp
from embedexp.training.interrupt import InterruptedRunError

from .conftest import overrides

KEPT = ("tracking", "evaluation", "paths")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two untrained models of different seeds."""
    folder = tmp_path_factory.mktemp("models")
    for seed in (0, 1):
        config = embedexp.compose(["backbone=tiny", f"seed={seed}"])
        embedexp.build_embedder(config).save(folder / f"m{seed}")
    return [str(folder / f"m{seed}") for seed in (0, 1)]


def soup(models, folder):
    options = [o for o in overrides(folder) if o.startswith(KEPT)]
    inputs = f"merge.inputs=[{','.join(models)}]"
    more = ["stage=merge", "merge=greedy_soup", inputs, "merge.tasks=[WordNetSimilarity]"]
    return embedexp.compose([*options, *more])


def test_an_interrupted_soup_goes_on_with_its_scores(models, tmp_path, monkeypatch):
    measured = []
    kept = mteb.evaluate

    def stopping(encoder, task, *rest, **more):
        if len(measured) == 1:
            raise InterruptedRunError("a test")
        measured.append(task)
        return kept(encoder, task, *rest, **more)

    config = soup(models, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(mteb, "evaluate", stopping)
        with pytest.raises(InterruptedRunError):
            embedexp.run(config, quiet=True)

    def counting(*arguments, **more):
        measured.append(arguments[1])
        return kept(*arguments, **more)

    monkeypatch.setattr(mteb, "evaluate", counting)
    run = embedexp.run(config, quiet=True)
    # Each model alone and both together, none of them twice; then the result on both tasks.
    assert len(measured) == 3 + 2

    record = json.loads((run.path / "merge.json").read_text())
    assert [each["path"] for each in record["inputs"]] == models
    assert len({each["content"] for each in record["inputs"]}) == 2
    first, second = record["decisions"]
    assert first["kept"]
    assert first["score"] == max(first["alone"], second["alone"])
    assert second["kept"] == (second["score"] >= first["score"])
    card = (run.model / "README.md").read_text()
    assert card.count("merged by greedy") == 2
    assert all(each["content"][:16] in card for each in record["inputs"])
    assert not (run.path / "candidates").exists()
    scores = {score["task"]: score["value"] for score in run.scores["after"]}
    best = second["score"] if second["kept"] else first["score"]
    assert scores["WordNetSimilarity"] == pytest.approx(best)
