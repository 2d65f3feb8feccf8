"""Datasets of the hub's library are read from a folder; without a network the hub is one line."""

import subprocess
import sys

import datasets
import pytest

from embedexp import data
from embedexp.config.errors import UserError

from . import options


@pytest.fixture
def saved(tmp_path):
    def saved(name="mine", splits=None, **columns):
        features = columns.pop("features", None)
        made = datasets.Dataset.from_dict(columns, features=features)
        folder = tmp_path / name
        if splits:
            parts = {split: made.select(rows) for split, rows in splits.items()}
            datasets.DatasetDict(parts).save_to_disk(str(folder))
        else:
            made.save_to_disk(str(folder))
        return folder

    return saved


def numbered(count):
    return {
        "query": [f"question {n}" for n in range(count)],
        "positive": [f"answer {n}" for n in range(count)],
    }


def test_a_saved_split_is_read(saved):
    folder = saved(splits={"train": range(6), "test": range(6, 8)}, **numbered(8))
    (train,) = data.load(options.huggingface(folder)).train
    assert (train.name, train.task) == ("mine", "retrieval")
    assert list(train.queries) == [f"question {n}" for n in range(6)]
    (test,) = data.load(options.huggingface(folder, split="test")).train
    assert list(test.positives) == ["answer 6", "answer 7"]
    with pytest.raises(UserError, match="no split tset; there are: train, test") as refusal:
        data.describe(options.huggingface(folder, split="tset"))
    assert refusal.value.hint == "did you mean data.split=test?"


def test_rows_of_a_selection_are_the_selected_ones(tmp_path):
    made = datasets.Dataset.from_dict(numbered(10)).select([7, 3])
    made.save_to_disk(str(tmp_path / "some"))
    (train,) = data.load(options.huggingface(tmp_path / "some")).train
    assert list(train.queries) == ["question 7", "question 3"]


def test_class_labels_are_read_as_their_names(saved):
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bad", "good"])}
    )
    folder = saved(text=["a", "b", "c"], label=[1, 0, -1], features=features)
    option = options.huggingface(folder, task="classification", query="text", label="label")
    (train,) = data.load(option).train
    assert list(zip(train.queries, train.positives, strict=True)) == [("a", "good"), ("b", "bad")]


def test_columns_that_are_not_named_are_not_decoded(saved):
    folder = saved(**numbered(3), other=[{"deep": [1]}] * 3, neg=[["n"], [], None])
    (train,) = data.load(options.huggingface(folder, negatives="neg")).train
    assert [list(row) for row in train.negatives] == [["n"], [], []]


def test_a_wrong_column_is_told_before_anything_is_loaded(saved):
    folder = saved(question=["a"], answer=["b"])
    error = data.missing_column(options.huggingface(folder))
    assert 'no field "query"; there are: question, answer' in error.what
    with pytest.raises(UserError, match=r'no field "query"; there are: question, answer'):
        data.load(options.huggingface(folder))


def test_fingerprint_follows_content_and_split_not_the_place(saved):
    splits = {"train": range(2), "test": range(2, 4)}
    one = options.huggingface(saved("one", splits, **numbered(4)))
    two = options.huggingface(saved("two", splits, **numbered(4)))
    other = options.huggingface(one.dataset, split="test")
    assert data.fingerprint(one) == data.fingerprint(two) != data.fingerprint(other)


def test_fingerprint_of_the_hub_is_the_revision_and_needs_no_network():
    one = options.huggingface("someone/pairs", revision="0123abc")
    assert data.fingerprint(one) == data.fingerprint(one)
    for change in ({"revision": "fedc"}, {"subset": "de"}, {"split": "dev"}):
        changed = options.huggingface("someone/pairs", **({"revision": "0123abc"} | change))
        assert data.fingerprint(changed) != data.fingerprint(one)
    assert data.describe(options.huggingface("a/pairs", subset="de")) == [
        ("pairs_de", "retrieval", None)
    ]


def test_without_a_network_the_hub_is_told_in_a_few_lines(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="the hub cannot be reached") as refusal:
        data.load(options.huggingface("someone/no-such-pairs"))
    assert len(str(refusal.value).splitlines()) == 3
    assert "data.dataset=someone/no-such-pairs" in refusal.value.where


def test_folders_of_something_else_are_refused(saved, tmp_path):
    folder = saved(**numbered(2))
    with pytest.raises(UserError, match="does not exist") as refusal:
        data.describe(options.huggingface(tmp_path / "mien"))
    assert refusal.value.hint == f"did you mean {folder}?"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no dataset of save_to_disk"):
        data.describe(options.huggingface(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"data\.revision has no meaning"):
        data.describe(options.huggingface(folder, revision="main"))


def test_describing_and_signing_do_not_import_the_library(saved):
    folder = saved(**numbered(2))
    program = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from embedexp import data\n"
        "from unit.data import options\n"
        f"option = options.huggingface({str(folder)!r})\n"
        "data.describe(option), data.fingerprint(option), data.missing_column(option)\n"
        "print([m for m in ('torch', 'datasets', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_positions_count_all_columns(saved):
    folder = saved(id=[1], a=["q"], b=["p"], c=["n"])
    option = options.huggingface(folder, query=2, positive=3, negatives=4)
    (train,) = data.load(option).train
    assert (train.queries[0], train.positives[0], list(train.negatives[0])) == ("q", "p", ["n"])
