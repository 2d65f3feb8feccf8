"""`compare`: ranks and differences of finished runs, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from embedexp.cli import main

SETTINGS: dict[str, Any] = {
    "mteb": "2.26.24",
    "dtype": ["float32"],
    "sizes": {"max_queries": 400},
    "embedding": {"name": "mean", "query_tokens": 64, "prompts": {"search_query": ""}},
    "routing": {"name": "dense"},
}


def score(task: str, kind: str, value: float, **more: Any) -> dict[str, Any]:
    base = {"task": task, "type": kind, "metric": "f1", "seconds": 1.0, "fingerprint": "x"}
    return {**base, "value": value, **more}


@pytest.fixture
def runs(here: Path) -> Path:
    """Three runs in runs/, of which b beats a on two of three tasks."""
    values = {"a": (0.5, 0.4, 0.3), "b": (0.6, 0.6, 0.2), "c": (0.1, 0.4, 0.1)}
    for name, (first, second, third) in values.items():
        folder = Path("runs") / f"{name}-000000000{ord(name) % 10}"
        (folder / "evaluation").mkdir(parents=True)
        (folder / "config.yaml").write_text("name: x\n")
        bitext = score(
            "Bitext", "BitextMining", third,
            subsets={"de-en": third + 0.1, "ja-en": third - 0.1},
            languages={"de-en": ["deu-Latn", "eng-Latn"], "ja-en": ["jpn-Jpan", "eng-Latn"]},
        )  # fmt: skip
        scores = [score("[red]One", "STS", first), score("Two", "STS", second), bitext]
        settings = copy.deepcopy(SETTINGS)
        settings["routing"]["name"] = "moe" if name == "b" else "dense"
        write(folder, scores, settings)
    return Path("runs")


def write(folder: Path, scores: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    content = {"before": [], "after": scores, "settings": settings}
    (folder / "evaluation" / "scores.json").write_text(json.dumps(content))


def change(run: str, **settings: Any) -> None:
    (folder,) = Path("runs").glob(f"{run}-*")
    content = json.loads((folder / "evaluation" / "scores.json").read_text())
    write(folder, content["after"], content["settings"] | settings)


def test_ranks_means_differences_and_groups(runs: Path, capsys) -> None:
    assert main(["compare", "a", "b", "c", "--json", "found.json"]) == 0
    told = capsys.readouterr().out
    assert "3 models on 3 tasks" in told
    assert "Indo-European" in told
    found = json.loads(Path("found.json").read_text())
    standings = {s["model"][0]: s for s in found["standings"]}
    # One: b 2, a 1; Two: b 2, a and c 0.5 each; Bitext: a 2, b 1.
    assert {name: s["votes"] for name, s in standings.items()} == {"b": 5.0, "a": 3.5, "c": 0.5}
    assert [s["rank"] for s in found["standings"]] == [1, 2, 3]
    assert standings["b"]["mean_task"] == pytest.approx((0.6 + 0.6 + 0.2) / 3)
    assert standings["b"]["mean_type"] == pytest.approx((0.6 + 0.2) / 2)
    task, subset = found["differences"][standings["b"]["model"]]
    assert (task["unit"], task["n"], task["mean"]) == ("task", 3, pytest.approx(0.2 / 3))
    assert (task["better"], task["worse"]) == (2, 1)
    assert subset["unit"].startswith("subset")
    assert (subset["n"], subset["mean"]) == (2, pytest.approx(-0.1))
    families = found["breakdowns"]["family"]
    assert families["Japonic"][1][standings["a"]["model"]] == pytest.approx(0.2)
    assert families["Japonic"][0] == 1


def test_another_model_is_no_other_measurement(runs: Path) -> None:
    change(
        "b", embedding={**SETTINGS["embedding"], "name": "cls", "prompts": {"search_query": "q"}}
    )
    assert main(["compare", "a", "b"]) == 0


def test_prompts_that_came_with_a_model_are_the_models_own(runs: Path) -> None:
    change("a", saved_prompts={"query": "query: "})
    change("b", saved_prompts={"Retrieval-query": "ask: "})
    assert main(["compare", "a", "b"]) == 0


def test_a_folder_that_is_not_there_is_told(runs: Path, capsys) -> None:
    assert main(["compare", "a", "b", "--json", "none/found.json"]) == 2
    assert "no folder none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sizes": {"max_queries": 100}}, "sizes.max_queries is 400 and 100"),
        ({"mteb": "2.1"}, "mteb is 2.26.24 and 2.1"),
        ({"prompts": {"STS": "alike: "}}, "prompts.STS is - and alike: "),
        ({"dtype": ["float16"]}, "dtype"),
        (
            {"embedding": {**SETTINGS["embedding"], "query_tokens": 32}},
            "embedding.query_tokens is 64 and 32",
        ),
    ],
)
def test_other_measurements_are_refused_unless_told(
    runs: Path, settings: dict[str, Any], told: str, capsys
) -> None:
    change("b", **settings)
    assert main(["compare", "a", "b"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "--different" in error
    assert len(error.splitlines()) <= 3
    assert main(["compare", "a", "b", "--different"]) == 0
    assert "measured differently" in capsys.readouterr().out


def test_a_missing_task_leaves_the_mean_open(runs: Path, capsys) -> None:
    (folder,) = Path("runs").glob("c-*")
    write(folder, [score("Two", "STS", 0.4)], SETTINGS)
    assert main(["compare", "a", "c", "--json", "found.json"]) == 0
    found = json.loads(Path("found.json").read_text())
    last = next(s for s in found["standings"] if s["model"].startswith("c"))
    assert last["mean_task"] is last["mean_type"] is None
    ((pair,),) = found["differences"].values()
    assert (pair["n"], pair["low"]) == (1, None)


@pytest.mark.parametrize("given", [["a"], ["a", "a"]])
def test_one_run_is_nothing_to_compare(runs: Path, given: list[str], capsys) -> None:
    assert main(["compare", *given]) == 2
    assert "at least two runs" in capsys.readouterr().err


def test_a_run_without_scores_is_told(runs: Path, capsys) -> None:
    (folder,) = Path("runs").glob("b-*")
    write(folder, [], SETTINGS)
    assert main(["compare", "a", "b"]) == 2
    assert "has no scores" in capsys.readouterr().err
