from __future__ import annotations

import json

import pytest
import yaml

import embedexp
from embedexp.evaluation import ScoreFile
from embedexp.evaluation.scores import Score
from embedexp.runs import RunDirectory
from embedexp.stage import card
from tests.unit.embedding.conftest import build


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run directory with a model, scores and an environment, without a run."""
    folder = tmp_path_factory.mktemp("runs")
    config = embedexp.compose(["backbone=tiny", "training.steps=7", f"paths.runs={folder}"])
    directory = RunDirectory.of(config)
    directory.freeze(config)
    prompts = {
        "search_query": "ask | `it`: ",
        "search_document": "",
        "classification": "",
        "clustering": "",
    }
    build("tiny", "moe", embedding__prompts=prompts, embedding__query_tokens=48).save(
        directory.model
    )
    for phase, value in (("before", 0.25), ("after", 0.5)):
        score = Score("Task_<b>|x", "Retrieval", "ndcg_at_10", value, 1.0, "f")
        ScoreFile(directory.evaluation).write(phase, [score], {})
    directory.environment_file.write_text(
        json.dumps({"data_fingerprint": "d" * 64, "python": "3.11.7", "packages": {"torch": "2.0"}})
    )
    card.leave(directory)
    return directory


def test_every_figure_is_the_runs_own(run):
    text = (run.model / "README.md").read_text()
    counts = embedexp.parameter_counts(embedexp.load(run.model).model)
    for figure in (
        f"| parameters | {counts['total']:,} |",
        f"| active per token | {counts['active']:,} |",
        "| longest query | 48 tokens |",
        "| longest document | 128 tokens |",
        "| 0.2500 | 0.5000 |",
        f"| signature | `{run.signature}` |",
        f"`{'d' * 64}`",
        "7 steps of 64, seed 0.",
        "| torch | 2.0 |",
    ):
        assert figure in text
    assert counts["active"] < counts["total"]


def test_text_from_configs_and_data_stays_text(run):
    text = (run.model / "README.md").read_text()
    assert r"Task\_\<b\>\|x" in text
    assert "`` ask \\| `it`:  ``" in text  # one space of it is the prompt's


def test_the_header_is_yaml_that_the_hub_reads(run):
    from huggingface_hub import ModelCard

    found = ModelCard.load(run.model / "README.md")
    assert found.data.library_name == "sentence-transformers"
    assert found.data.pipeline_tag == "sentence-similarity"
    assert "mixture-of-experts" in found.data.tags
    (result,) = found.data.eval_results
    assert (result.metric_type, result.metric_value) == ("ndcg_at_10", 0.5)
    header = (run.model / "README.md").read_text().split("---\n")[1]
    assert yaml.safe_load(header)["model-index"][0]["name"] == run.name


def test_folders_of_the_machine_are_not_told():
    option = {"name": "jsonl", "path": "/home/me/secret/pairs.jsonl", "files": ["~/a/b.txt"]}
    assert card._inline(option) == 'jsonl: path="pairs.jsonl", files=["b.txt"]'
    assert card._without_folders("/runs/pre-0123456789/model") == "pre-0123456789"
    assert card._without_folders("owner/name") == "owner/name"


def test_a_card_is_no_reason_to_fail_a_run(run, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("no card today")

    monkeypatch.setattr(card, "render", broken)
    card.leave(run)
    assert (run.model / "README.md").is_file()


@pytest.mark.parametrize("value", ["`", "``a`", " a", "a|b", "two\nlines"])
def test_code_holds_any_text_in_one_cell(value):
    found = card.code(value)
    assert "\n" not in found
    assert found.replace("\\|", "").count("|") == 0
