"""Wrong labels, drawn at random, are wrong and always the same."""

from collections import Counter
from dataclasses import replace

import pytest

from embedexp import negatives
from embedexp.config.errors import UserError
from embedexp.config.schema.negatives import Label
from embedexp.data import Corpus, Dataset

LABELS = [f"label {i}" for i in range(5)]
QUERIES = [f"text {i}" for i in range(500)]
DATA = Dataset("c", "classification", QUERIES, [LABELS[i % 5] for i in range(500)])


def attach(*datasets, count=2, seed=0):
    option = Label(name="label", count=count, seed=seed)
    return negatives.attach(option, Corpus(datasets)).train


def test_labels_are_wrong_distinct_and_evenly_drawn():
    (found,) = attach(DATA)
    counts = Counter()
    for positive, row in zip(found.positives, found.negatives, strict=True):
        assert len(set(row)) == 2
        assert positive not in row
        assert set(row) <= set(LABELS)
        counts.update((positive, label) for label in row)
    assert len(counts) == 20
    assert all(30 <= count <= 70 for count in counts.values())  # 50 expected, 5 deviations


def test_the_draw_follows_the_example_and_the_seed_not_the_place():
    (found,) = attach(DATA)
    (again,) = attach(DATA.select([7, 3]), DATA)[:1]
    moved = attach(DATA.select(range(499, -1, -1)))[0]
    assert list(moved.negatives)[::-1] == list(found.negatives)
    assert len(again.negatives) == 2
    assert list(attach(DATA, seed=1)[0].negatives) != list(found.negatives)


def test_a_text_of_several_classes_has_none_of_them_as_negative():
    data = Dataset("c", "classification", ["a", "a", "b"], ["x", "y", "z"])
    (found,) = attach(data, count=4)
    assert [sorted(row) for row in found.negatives] == [["z"], ["z"], ["x", "y"]]


def test_other_names_of_the_same_class_are_right():
    data = Dataset("c", "classification", ["a", "b", "c"], ["x", "X", "y"], groups=["1", "1", "2"])
    (found,) = attach(data, count=4)
    assert [sorted(row) for row in found.negatives] == [["y"], ["y"], ["X", "x"]]


def test_only_classification_has_labels():
    retrieval = replace(DATA, name="r", task="retrieval")
    mixed = attach(DATA, retrieval)
    assert mixed[1].negatives is None
    with pytest.raises(UserError, match="r teaches retrieval, which has no labels"):
        attach(retrieval)
    with pytest.raises(UserError, match="c has one label only"):
        attach(DATA.select(range(0, 500, 5)))
