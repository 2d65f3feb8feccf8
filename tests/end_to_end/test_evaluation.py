"""Scores of a handed-over model are those that anybody measures; public tasks in whole runs."""

from __future__ import annotations

import warnings
from functools import partial
from importlib import import_module
from typing import get_args

import mteb
import pytest

import embedexp
from embedexp.cli.commands import run_command
from embedexp.config import catalogue
from embedexp.config.schema.evaluation import BuiltinTask
from embedexp.data.builtin import heldout
from embedexp.evaluation import ScoreFile, builtin, evaluate
from embedexp.runs import RunDirectory, State
from embedexp.stage.evaluate import UnmeasuredTasksError
from tests.unit.evaluation.public import TASKS, Pairs, Unreachable

from .conftest import overrides

SMALL = ["evaluation.max_queries=20", "evaluation.max_documents=60", "evaluation.max_examples=200"]
PROMPTS = {
    "search_query": "ask: ",
    "search_document": "tell: ",
    "classification": "class: ",
    "clustering": "group: ",
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A dense model with a prompt for each instruction, as a folder."""
    prompts = [f"embedding.prompts.{task}='{prompt}'" for task, prompt in PROMPTS.items()]
    folder = tmp_path_factory.mktemp("exported") / "model"
    config = embedexp.compose(["backbone=tiny", *prompts, "embedding.query_tokens=64"])
    embedexp.build_embedder(config).save(folder)
    return folder


@pytest.fixture(scope="module")
def theirs(exported):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(exported), device="cpu")


@pytest.fixture(scope="module")
def content():
    return heldout()


@pytest.fixture(scope="module")
def loaded(exported):
    return embedexp.load(exported)


@pytest.mark.parametrize("name", get_args(BuiltinTask))
def test_a_score_equals_mtebs_over_plain_sentence_transformers(
    name, loaded, theirs, content, monkeypatch
):
    read_once = partial(builtin.evaluate, material=lambda: content)
    monkeypatch.setattr(builtin, "evaluate", read_once)
    option = embedexp.compose(["backbone=tiny", f"evaluation.tasks=[{name}]", *SMALL]).evaluation
    (ours,) = evaluate(loaded, option)
    task = builtin.BUILDERS[name](content, option)
    with warnings.catch_warnings():  # mteb's own use of sentence-transformers and torch
        warnings.simplefilter("ignore")
        (result,) = mteb.evaluate(
            theirs, task, cache=None, show_progress_bar=False, co2_tracker=False
        ).task_results
    assert ours.value == pytest.approx(result.get_score(), abs=1e-6)


@pytest.fixture
def public(monkeypatch):
    registry = import_module("mteb.get_tasks")._TASKS_REGISTRY  # the package's is a function
    for name, cls in TASKS.items():
        monkeypatch.setitem(registry, name, cls)
    monkeypatch.setattr(catalogue, "is_complete", lambda: False)
    monkeypatch.setattr(Unreachable, "reachable", False)
    monkeypatch.setattr(Pairs, "loads", [])


def evaluation(exported, folder, *more):
    names = ",".join(TASKS)
    return [
        "stage=evaluate",
        f"stage.model={exported}",
        "evaluation=mteb",
        f"evaluation.tasks=[{names}]",
        "tracking=none",
        f"paths.runs={folder / 'runs'}",
        f"paths.cache={folder / 'cache'}",
        *more,
    ]


def test_a_failing_task_fails_the_run_at_its_end_and_is_all_that_is_done_again(
    exported, tmp_path, public, capfd
):
    config = embedexp.compose(evaluation(exported, tmp_path))
    with pytest.raises(UnmeasuredTasksError) as error:
        embedexp.run(config)
    assert str(error.value).splitlines()[:2] == [
        "1 of 3 tasks could not be measured: PublicGone",
        "PublicGone: ConnectionError: the hub does not answer",
    ]
    directory = RunDirectory.of(config)
    assert directory.status.state is State.FAILED
    assert "PublicGone           failed: ConnectionError" in capfd.readouterr().out

    assert run_command("results", [str(directory.path)]) == 0
    assert "hub does not answer" in capfd.readouterr().out

    first = Pairs.loads.copy()
    Unreachable.reachable = True
    run = embedexp.run(config, quiet=True)
    assert [score["task"] for score in run.scores["after"]] == list(TASKS)
    assert Pairs.loads == first
    assert directory.status.state is State.FINISHED
    assert ScoreFile(directory.evaluation).failed("after") == []


def test_shards_are_runs_whose_scores_the_whole_takes_over(exported, tmp_path, public):
    Unreachable.reachable = True
    runs = [
        embedexp.run(
            embedexp.compose(
                evaluation(exported, tmp_path, "evaluation.shards=2", f"evaluation.shard={shard}")
            ),
            quiet=True,
        )
        for shard in (0, 1)
    ]
    done = {score["task"]: score for run in runs for score in run.scores["after"]}
    assert set(done) == set(TASKS)
    assert all(run.scores["after"] for run in runs)
    before = Pairs.loads.copy()
    whole = embedexp.run(
        embedexp.compose(evaluation(exported, tmp_path, "evaluation.shards=2")), quiet=True
    )
    assert list(whole.scores["after"]) == [done[name] for name in TASKS]
    assert Pairs.loads == before
    assert len(list((whole.path / "evaluation" / "mteb" / "after").iterdir())) == 3


def test_a_training_run_with_a_failing_task_keeps_its_model_and_goes_on(tmp_path, public):
    config = embedexp.compose(
        [
            *(each for each in overrides(tmp_path) if not each.startswith("evaluation.")),
            "evaluation=mteb",
            "evaluation.before=true",
            "evaluation.tasks=[PublicGone,PublicSearch]",
        ]
    )
    with pytest.raises(UnmeasuredTasksError):
        embedexp.run(config, quiet=True)
    Unreachable.reachable = True
    run = embedexp.run(config, quiet=True)
    assert {score["task"] for score in run.scores["after"]} == {"PublicGone", "PublicSearch"}
    assert [score["task"] for score in run.scores["before"]] == ["PublicSearch"]
    assert run.model.is_dir()
