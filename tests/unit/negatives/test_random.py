"""Random negatives are documents of other queries, wrong ones only."""

import pytest

from embedexp import negatives
from embedexp.config.errors import UserError
from embedexp.config.schema.negatives import Random
from embedexp.data import Corpus, Dataset


def attach(dataset, count=3, seed=0):
    option = Random(name="random", count=count, seed=seed)
    return list(negatives.attach(option, Corpus((dataset,))).train[0].negatives)


def test_all_wrong_documents_and_no_other_where_few_are_left():
    data = Dataset(
        "d",
        "retrieval",
        ["a", "a", "b", "c", "d"],
        ["A", "A2", "B", "a", "D"],
        groups=["1", "1", "1", None, "2"],
    )
    found = attach(data, count=9)
    # of a: not its own two, not its own text, not b's (same group)
    assert [sorted(row) for row in found] == [
        ["D"],
        ["D"],
        ["D", "a"],
        ["A", "A2", "B", "D"],
        ["A", "A2", "B", "a"],
    ]


def test_draws_are_distinct_even_and_follow_the_seed():
    texts = [str(i) for i in range(300)]
    data = Dataset("d", "retrieval", [f"q{t}" for t in texts], texts)
    found = attach(data)
    assert all(
        len(set(row)) == 3 and text not in row for row, text in zip(found, texts, strict=True)
    )
    assert len({text for row in found for text in row}) > 270  # e^-3 of them stay out: 15
    assert found == attach(data)
    assert found != attach(data, seed=1)


def test_one_document_for_all_has_no_wrong_answer():
    with pytest.raises(UserError, match="no document that is wrong"):
        attach(Dataset("d", "retrieval", ["a", "b"], ["x", "x"]))
