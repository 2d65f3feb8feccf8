"""Votes, ranks and means equal those of mteb's own leaderboard code."""

from __future__ import annotations

import random

import polars as pl
import pytest
from mteb.benchmarks import _create_table as theirs

from embedexp.evaluation import borda
from embedexp.evaluation.ranking import mean_over_tasks, mean_over_types, means_by_type, ranks

TASKS = {
    "AmazonCounterfactualClassification": "Classification",
    "Banking77Classification": "Classification",
    "STS12": "STS",
    "STS13": "STS",
    "STS14": "STS",
    "ArguAna": "Retrieval",
}
"""Real names, of which mteb knows the types."""


def drawn(seed: int, models: int, missing: float) -> dict[str, dict[str, float | None]]:
    """Scores with many ties, some of them missing."""
    rng = random.Random(seed)
    return {
        f"model {i}": {
            task: None if rng.random() < missing else rng.randint(0, 4) / 4 for task in TASKS
        }
        for i in range(models)
    }


def frame(scores: dict[str, dict[str, float | None]]) -> pl.DataFrame:
    return pl.DataFrame([{"model_name": name, **values} for name, values in scores.items()])


@pytest.mark.parametrize("missing", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(20))
def test_ranks_equal_mtebs_with_ties_and_missing_scores(seed: int, missing: float) -> None:
    scores = drawn(seed, 2 + seed % 6, missing)
    expected = frame(scores).select(theirs._get_borda_rank(list(TASKS))).to_series().to_list()
    assert list(ranks(borda(scores)).values()) == expected


@pytest.mark.parametrize("seed", range(5))
def test_ranks_equal_mtebs_other_form_which_leaves_missing_rows_out(seed: int) -> None:
    scores = drawn(seed, 5, 0.2)
    scores["model 0"]["STS12"] = 1.0  # every model has at least one score
    long = pl.DataFrame(
        [
            {"model_name": model, "task_name": task, "score": value}
            for model, values in scores.items()
            for task, value in values.items()
            if value is not None
        ]
    )
    found = theirs._borda_rank_from_long(long, n_models=len(scores))
    expected = dict(found.iter_rows())
    votes = ranks(borda(scores))
    assert {model: votes[model] for model in expected} == expected


def test_votes_of_a_small_set_by_hand() -> None:
    scores = {
        "a": {"x": 0.9, "y": 0.5},
        "b": {"x": 0.8, "y": 0.5},
        "c": {"x": 0.1},
    }
    # x: 2, 1, 0 votes; y: a and b share places 1 and 2 of three models, c has none.
    assert borda(scores) == {"a": 3.5, "b": 2.5, "c": 0.0}
    assert ranks({"a": 2.0, "b": 2.0, "c": 1.0}) == {"a": 1, "b": 1, "c": 3}


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_means_equal_mtebs(missing: float) -> None:
    scores = drawn(7, 6, missing)
    expressions, names = theirs._get_means_per_types(list(TASKS))
    table = (
        frame(scores)
        .with_columns(*expressions)
        .with_columns(
            theirs._mean_or_null(list(TASKS), "task"), theirs._mean_or_null(names, "type")
        )
    )
    for row in table.iter_rows(named=True):
        values = scores[row["model_name"]]
        assert mean_over_tasks(values, TASKS) == pytest.approx(row["task"], nan_ok=True)
        assert mean_over_types(values, TASKS) == pytest.approx(row["type"])
        assert means_by_type(values, TASKS) == pytest.approx({name: row[name] for name in names})
