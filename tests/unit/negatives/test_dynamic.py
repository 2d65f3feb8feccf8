"""Options of dynamic negatives: the papers' values, and where candidates come from."""

from __future__ import annotations

import json

import pytest

import embedexp
from embedexp import negatives
from embedexp.config.errors import UserError
from embedexp.data.dataset import Corpus, Dataset
from embedexp.negatives.missing import NoNegativesError


@pytest.fixture
def pairs(tmp_path):
    """Data that bring three hard negatives a query."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"query": f"q{i}", "positive": f"p{i}", "negatives": [f"n{i}{k}" for k in range(3)]}
        for i in range(80)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return ["data=jsonl", f"data.path={path}", "data.columns.negatives=negatives"]


def option(pairs, *more):
    return embedexp.compose([*pairs, "batching.size=16", *more]).negatives


def test_both_versions_have_the_values_of_their_papers(pairs):
    v2 = option(pairs, "negatives=dynamic")
    assert (v2.factor, v2.ceiling, v2.floor, v2.whole_set, v2.every) == (1.2, 0.7, 0.4, False, 1)
    assert (v2.count, v2.skip) == (7, 0)
    v1 = option(pairs, "negatives=dynamic_v1")
    assert (v1.factor, v1.ceiling, v1.floor, v1.whole_set, v1.every) == (1.15, 0.8, None, True, 100)
    assert v1.skip == 10


def test_a_label_for_the_same_values_is_the_same_experiment(pairs):
    values = ["pool=50", "count=4", "skip=10", "factor=1.15", "ceiling=0.8", "floor=null"]
    values += ["whole_set=true", "every=100"]
    spelled = [f"negatives.{value}" for value in values]
    data = [*pairs, "batching.size=16"]
    first = embedexp.compose([*data, "negatives=dynamic", *spelled])
    second = embedexp.compose([*data, "negatives=dynamic_v1"])
    assert first.signature == second.signature


def dataset(**columns):
    return Dataset("pairs", "retrieval", ["q0", "q1"], ["p0", "p1"], **columns)


def test_candidates_are_those_of_the_data_up_to_the_pool(pairs):
    chosen = option(pairs, "negatives=dynamic", "negatives.pool=3", "negatives.count=1")
    corpus = Corpus((dataset(negatives=[["a", "b", "c", "d"], ["e"]]),))
    (attached,) = negatives.attach(chosen, corpus).train
    assert [list(row) for row in attached.negatives] == [["a", "b", "c"], ["e"]]


def test_candidates_of_a_file_leave_out_right_answers(pairs, tmp_path):
    file = tmp_path / "candidates.jsonl"
    file.write_text(json.dumps({"query": "q0", "negatives": ["a", "p0", "b", "c"]}))
    where = [f"negatives.path={file}", "negatives.pool=2", "negatives.count=1"]
    chosen = option(pairs, "negatives=dynamic", *where)
    (attached,) = negatives.attach(chosen, Corpus((dataset(),))).train
    assert [list(row) for row in attached.negatives] == [["a", "b"], []]


def test_data_without_candidates_are_refused(pairs):
    chosen = option(pairs, "negatives=dynamic")
    with pytest.raises(NoNegativesError, match="without hard negatives"):
        negatives.attach(chosen, Corpus((dataset(),)))


def test_a_set_needs_another_set_to_be_replaced_with(pairs):
    with pytest.raises(UserError, match=r"negatives.pool=17 leaves no candidate.*skip=10"):
        option(pairs, "negatives=dynamic_v1", "negatives.pool=17")
    assert option(pairs, "negatives=dynamic_v1", "negatives.pool=18").pool == 18
