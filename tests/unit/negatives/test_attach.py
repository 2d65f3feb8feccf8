"""Hard negatives are attached as the option says, or the reason why not is given."""

import json
import logging
from dataclasses import replace

import pytest

from embedexp import negatives
from embedexp.config.errors import UserError
from embedexp.config.schema.negatives import MinedFile, NoNegatives, Own
from embedexp.data import Corpus, Dataset

PLAIN = Dataset("plain", "retrieval", ["a", "b", "c"], ["A", "B", "C"], weight=2.0)
RICH = replace(PLAIN, name="rich", negatives=[["x", "y", "z"], ["x"], []])
SCORED = Dataset("graded", "sts", ["a"], ["b"], scores=[0.5])


def none():
    return NoNegatives(name="none")


def own(count):
    return Own(name="own", count=count)


@pytest.fixture
def mined(tmp_path):
    def write(*lines, count=4, name="mined.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return MinedFile(name="mined_file", path=str(path), count=count)

    return write


def attach(option, *datasets):
    return negatives.attach(option, Corpus(datasets, (PLAIN,), "f" * 64))


def test_none_drops_what_the_data_brings():
    corpus = attach(none(), RICH, PLAIN)
    assert [dataset.negatives for dataset in corpus.train] == [None, None]
    assert corpus.train[0] == replace(RICH, negatives=None)
    assert (corpus.heldout, corpus.fingerprint) == ((PLAIN,), "f" * 64)


def test_own_keeps_the_first_and_counts_short_rows(caplog):
    with caplog.at_level(logging.WARNING):
        (dataset,) = attach(own(2), RICH).train
    assert dataset.negatives == [["x", "y"], ["x"], []]
    assert dataset == replace(RICH, negatives=dataset.negatives)
    assert "rich: 2 of 3 examples have fewer than 2 hard negatives" in caplog.text


@pytest.mark.parametrize("negatives_", [None, [[], [], []]])
def test_own_without_any_is_refused(negatives_):
    with pytest.raises(UserError, match="plain comes without hard negatives") as refusal:
        attach(own(1), replace(PLAIN, negatives=negatives_))
    assert "data.columns.negatives" in refusal.value.hint


def test_mixture_trains_the_poor_datasets_without_and_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        corpus = attach(own(1), PLAIN, RICH, SCORED)
    assert [dataset.negatives for dataset in corpus.train] == [None, [["x"], ["x"], []], None]
    assert "trains without hard negatives: the dataset plain" in caplog.text


def test_scored_pairs_alone_have_no_use_for_negatives():
    with pytest.raises(UserError, match="scored pairs have no hard negatives"):
        attach(own(1), replace(SCORED, negatives=[["x"]]))
    assert attach(none(), SCORED).train == (SCORED,)


def test_mined_are_matched_by_query_and_never_a_positive(mined, caplog):
    dataset = Dataset("d", "retrieval", ["a", "b", "a", "c"], ["A", "B", "A2", "C"])
    option = mined(
        {"query": "a", "negatives": ["A2", "x", "A", "y", "x", "z"], "scores": [1, 2]},
        {"query": "unknown", "negatives": ["x"]},
        {"query": "c", "negatives": []},
        {"query": "c", "negatives": ["v"]},
        count=2,
    )
    with caplog.at_level(logging.INFO):
        (done,) = attach(option, dataset).train
    assert done.negatives == [["x", "y"], [], ["x", "y"], ["v"]]
    assert "d: 75.0% of the queries mined, 5 negatives" in caplog.text


def test_file_of_another_dataset_is_refused(mined):
    queries = [f"q{n}" for n in range(1000)]
    dataset = Dataset("d", "retrieval", queries, queries)
    lines = [{"query": f"q{n}", "negatives": ["x"]} for n in range(9)]
    with pytest.raises(UserError, match=r"0\.9% of the queries of d are in mined\.jsonl"):
        attach(mined(*lines), dataset)
    lines.append({"query": "q9", "negatives": ["x"]})
    assert attach(mined(*lines), dataset).train[0].negatives[9] == ["x"]


def test_changed_file_is_read_again(mined):
    assert attach(mined({"query": "a", "negatives": ["x"]}), PLAIN).train[0].negatives[0] == ["x"]
    changed = attach(mined({"query": "a", "negatives": ["x", "yy"]}), PLAIN)
    assert changed.train[0].negatives[0] == ["x", "yy"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"q": "a", "negatives": ["x"]}, "fields: q, negatives"),
        ({"query": "a", "negatives": "x"}, 'it needs "query" (text) and "negatives"'),
        ({"query": "a", "negatives": ["x", 1]}, "a negative is not a text"),
        ({"query": "a", "negatives": [" "]}, "a negative is not a text, or empty"),
        ({"query": "a", "negatives": ["x\0"]}, "a negative has a NUL character"),
        (["a", ["x"]], "a JSON list where an object is needed"),
    ],
)
def test_wrong_line_is_named(mined, line, problem):
    option = mined({"query": "a", "negatives": ["x"]}, line)
    with pytest.raises(UserError) as refusal:
        attach(option, PLAIN)
    assert str(refusal.value).startswith("mined.jsonl, line 2: ")
    assert problem in str(refusal.value)


def test_missing_file_names_the_key(mined):
    option = mined({"query": "a", "negatives": ["x"]})
    wrong = option.model_copy(update={"path": option.path.replace("mined.", "mind.")})
    with pytest.raises(UserError, match="does not exist") as refusal:
        attach(wrong, PLAIN)
    assert refusal.value.where.startswith("negatives.path=")
    assert refusal.value.hint == f"did you mean {option.path}?"
