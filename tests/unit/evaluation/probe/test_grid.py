"""From labelled files to a table: selection, models that others start from, resume."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import embedexp
from embedexp.evaluation import ScoreFile
from embedexp.evaluation.probe import fit
from embedexp.evaluation.probe.fit import Cell
from embedexp.evaluation.probe.grid import Result, ResultFile, ordered
from embedexp.evaluation.probe.summary import note, summarise
from embedexp.training.interrupt import InterruptedRunError

from .conftest import LANGUAGES


def run(config):
    return embedexp.run(config, quiet=True)


def lines(done):
    text = (done.path / "probe" / "cells.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def points():
    """Results of a grid of two points, three seeds, made up."""

    def of(rate, seed, value):
        dev = {"validation": {"accuracy": value}}
        return Result(Cell("rte", 16, rate, seed), dev, None, 1.0)

    values = [(1e-5, 0, 0.9), (1e-5, 1, 0.1), (1e-5, 2, 0.2), (2e-5, 0, 0.5), (2e-5, 1, 0.6)]
    found = [of(*each) for each in values] + [of(2e-5, 2, 0.7)]
    return {each.cell: each for each in found}


def test_the_point_with_the_best_mean_is_selected_not_the_one_with_the_luckiest_seed(points):
    (found,) = summarise(points)
    assert (found.learning_rate, found.reported) == (2e-5, "dev")
    assert found.mean == pytest.approx(0.6)
    assert found.deviation == pytest.approx(0.1)  # of the sample: sqrt((.01 + 0 + .01) / 2)


def test_a_point_at_which_a_seed_diverged_does_not_win(points):
    lost = Cell("rte", 16, 2e-5, 2)
    (found,) = summarise({**points, lost: Result(lost, None, None, 1.0)})
    assert found.learning_rate == 1e-5


def test_a_grid_learns_and_says_what_it_did(composed):
    done = run(composed("stage.epochs=6", "stage.learning_rates=[1e-6,2e-3]", tasks=["cola"]))
    (task,) = json.loads((done.path / "probe" / "results.json").read_text())["tasks"]
    assert task["learning_rate"] == 2e-3
    assert task["mean"] > 0.8  # Matthews correlation; 0 is chance
    assert len(lines(done)) == 4
    (score,) = ScoreFile(done.directory.evaluation).read("after")
    assert (score.task, score.metric, score.value) == ("cola", "matthews", task["mean"])
    table = (done.path / "probe" / "table.md").read_text()
    assert "| cola |" in table
    assert "from 2 points" in table


def test_tasks_start_from_the_best_model_of_another(composed):
    done = run(composed(tasks=("stsb", "mnli")))
    found = lines(done)
    assert [each["cell"]["task"] for each in found] == ["mnli", "mnli", "stsb", "stsb"]
    scores = {each["cell"]["seed"]: each["dev"] for each in found[:2]}
    means = {s: sum(part["accuracy"] for part in parts.values()) / 2 for s, parts in scores.items()}
    best = max(means, key=means.get)
    assert {each["start"] for each in found[2:]} == {f"mnli batch 8 lr 0.001 seed {best}"}
    (path,) = (done.path / "probe" / "start").iterdir()
    assert path.name == f"mnli_batch_8_lr_0.001_seed_{best}.safetensors"
    kept = load_file(path)
    embedder = embedexp.build_embedder(done.config)
    config = done.config
    cell = Cell("stsb", 8, 1e-3, 0)
    model = fit.start(embedder, kept, config.stage, cell, 1)
    assert torch.equal(model.dense.weight, kept["dense.weight"])
    name, weight = next(iter(embedder.state_dict().items()))
    assert torch.equal(weight, kept[f"embedder.{name}"])
    assert model.output.out_features == 1


def test_a_stopped_grid_goes_on_at_the_cell_that_is_missing(composed, monkeypatch, tmp_path):
    whole = run(composed(tasks=("mnli", "stsb")))
    again = composed(f"paths.runs={tmp_path / 'again'}", tasks=("mnli", "stsb"))
    trained = []
    real = fit.train

    def stopping(model, data, task, stage, cell, on_step):
        if len(trained) == 3:
            raise InterruptedRunError("a test")
        trained.append(cell)
        return real(model, data, task, stage, cell, on_step)

    monkeypatch.setattr(fit, "train", stopping)
    with pytest.raises(InterruptedRunError):
        run(again)
    assert len(trained) == 3
    monkeypatch.setattr(fit, "train", lambda *args: trained.append(args[4]) or real(*args))
    done = run(again)
    assert len(trained) == len(set(trained)) == 4
    for one, two in zip(lines(whole), lines(done), strict=True):
        assert {**one, "seconds": 0} == {**two, "seconds": 0}


def test_a_line_cut_short_counts_as_missing(tmp_path):
    file = ResultFile(tmp_path / "cells.jsonl")
    first, second = (Result(Cell("a", 8, 1e-3, s), {"dev": {"f1": 0.5}}, None, 1) for s in (0, 1))
    file.add(first)
    with file.path.open("a") as torn:
        torn.write('{"cell": {"task": "a", "batch')
    assert list(file.read()) == [first.cell]
    file.add(second)
    assert list(file.read().values()) == [first, second]


def test_trained_in_one_language_tested_in_all(composed, folder):
    done = run(
        composed(
            "probes@stage.tasks=xtreme_r", f"stage.tasks.xnli.dataset={folder / 'xnli'}",
            "stage.tasks.xnli.test.languages=[en,de,fr]", "stage.only=[xnli]", "stage.epochs=6",
            tasks=(),
        )
    )  # fmt: skip
    (task,) = json.loads((done.path / "probe" / "results.json").read_text())["tasks"]
    assert task["reported"] == "test"
    assert set(task["measures"]) == set(LANGUAGES)
    languages = [values["accuracy"][0] for values in task["measures"].values()]
    assert task["mean"] == pytest.approx(sum(languages) / 3)
    assert task["measures"]["en"]["accuracy"][0] > 0.5
    assert "reported on the test splits" in note(done.config.stage)


def test_tasks_that_others_start_from_come_first():
    tasks = embedexp.compose(["stage=probe"]).stage.tasks
    order = ordered(tasks)
    assert set(order) == {"cola", "sst2", "qqp", "mnli", "qnli", "mrpc", "stsb", "rte"}
    assert max(map(order.index, ["mnli"])) < min(map(order.index, ["rte", "stsb", "mrpc"]))
