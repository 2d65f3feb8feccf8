"""The data's own negatives and their teacher's scores stay side by side."""

import pytest

from embedexp import negatives
from embedexp.config.schema.negatives import NoNegatives, Own
from embedexp.data import Corpus, columns
from embedexp.data.columns import Example, ExampleStore

ROWS = [
    Example("a", "A", ("x", "y", "z"), teacher_scores=(0.9, 0.5, 0.4, 0.3)),
    Example("b", "B", ("x",), teacher_scores=(0.8, 0.2)),
    Example("c", "C"),
]


@pytest.fixture(params=["in memory", "in a file"])
def dataset(request, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "SMALL", 2)
    monkeypatch.setattr(columns, "BATCH", 2)
    cache = tmp_path if request.param == "in a file" else None
    return ExampleStore.build(name="d", task="retrieval", rows=ROWS, cache_dir=cache, key="k")


def attached(option, dataset):
    (done,) = negatives.attach(option, Corpus((dataset,))).train
    return done


def lists(column):
    return [list(row or ()) for row in column]


def test_scores_are_cut_with_the_negatives(dataset):
    done = attached(Own(name="own", count=2), dataset)
    assert lists(done.negatives) == [["x", "y"], ["x"], []]
    assert lists(done.teacher_scores) == [
        pytest.approx([0.9, 0.5, 0.4]),
        pytest.approx([0.8, 0.2]),
        [],
    ]


def test_where_the_negatives_go_their_scores_go_too(dataset):
    done = attached(NoNegatives(name="none"), dataset)
    assert done.negatives is None
    assert lists(done.teacher_scores) == [pytest.approx([0.9]), pytest.approx([0.8]), []]
