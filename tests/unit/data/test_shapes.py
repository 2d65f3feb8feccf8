"""Rows of any layout become the examples that they mean."""

import json
import math

import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.config.sources import option_files, read_yaml

from . import options


@pytest.fixture
def load(tmp_path):
    def load(*rows, **changes):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return data.load(options.jsonl(path, **changes))

    return load


def layout(name):
    """The columns of `+columns=NAME`."""
    return read_yaml(option_files("columns")[name])


def rows_of(dataset):
    columns = [dataset.queries, dataset.positives, dataset.negatives or [[]] * len(dataset)]
    return [(q, p, list(n)) for q, p, n in zip(*columns, strict=True)]


def test_triplet_has_one_negative(load):
    rows = [{"anchor": "a", "positive": "b", "negative": "c"}, {"anchor": "d", "positive": "e"}]
    rows[1]["negative"] = None
    (train,) = load(*rows, query="anchor", negatives="negative").train
    assert rows_of(train) == [("a", "b", ["c"]), ("d", "e", [])]


def test_numbered_negatives_are_taken_in_the_order_of_their_numbers(load):
    row = {"query": "q", "positive": "p", "negative_10": "ten", "negative_9": "nine"}
    sparse = {"query": "r", "positive": "p", "negative_9": None}
    without = {"query": "s", "positive": "p"}
    (train,) = load(row, sparse, without, negatives="negative_*").train
    assert rows_of(train) == [("q", "p", ["nine", "ten"]), ("r", "p", []), ("s", "p", [])]


def test_negatives_of_several_named_columns(load):
    row = {"query": "q", "positive": "p", "hard": ["a", "b"], "easy": "c"}
    (train,) = load(row, negatives=["easy", "hard"]).train
    assert rows_of(train) == [("q", "p", ["c", "a", "b"])]


def test_several_positives_are_several_examples_with_the_same_negatives(load):
    row = {"query": "q", "positive": ["p", "r"], "neg": ["n", "r"], "group": 3}
    (train,) = load(row, negatives="neg", group="group").train
    assert rows_of(train) == [("q", "p", ["n"]), ("q", "r", ["n"])]  # no positive is a negative
    assert list(train.groups) == ["3", "3"]


def test_flagembedding_layout(load):
    full = {"query": "q", "pos": ["p", "r"], "neg": ["n", "", "m"], "prompt": "Find: "}
    full |= {"pos_scores": [0.9, 0.8], "neg_scores": [0.3, 0.2, 0.1], "type": "normal"}
    (train,) = load(full, **layout("flagembedding")).train
    assert rows_of(train) == [("Find: q", "p", ["n", "m"]), ("Find: q", "r", ["n", "m"])]
    assert [list(scores) for scores in train.teacher_scores] == [[0.9, 0.3, 0.1], [0.8, 0.3, 0.1]]


def test_flagembedding_layout_without_what_is_optional(load):
    rows = [{"query": "q", "pos": ["p"], "neg": []}, {"query": "r", "pos": ["p"], "neg": None}]
    (train,) = load(*rows, **layout("flagembedding")).train
    assert rows_of(train) == [("q", "p", []), ("r", "p", [])]
    assert train.teacher_scores is None
    (bare,) = load({"query": "q", "pos": ["p"]}, **layout("flagembedding")).train
    assert rows_of(bare) == [("q", "p", [])]


def test_flagembedding_scores_of_one_side_alone_are_kept(load):
    row = {"query": "q", "pos": ["p"], "neg": ["n", "m"], "neg_scores": [0.3, 0.1]}
    (train,) = load(row, **layout("flagembedding")).train
    ((positive, *negatives),) = map(list, train.teacher_scores)
    assert math.isnan(positive)
    assert negatives == [0.3, 0.1]


def test_one_list_of_teacher_scores_holds_positives_before_negatives(load):
    row = {"query": "q", "positive": ["p", "r"], "neg": ["r", "n"], "teacher": [1, 2, 3, None]}
    (train,) = load(row, negatives="neg", teacher_scores="teacher").train
    first, second = train.teacher_scores
    assert (first[0], second[0]) == (1, 2)
    assert all(len(scores) == 2 and math.isnan(scores[1]) for scores in (first, second))


def test_another_number_of_teacher_scores_than_texts_is_a_bad_row(load):
    row = {"query": "q", "positive": "p", "neg": ["n"], "teacher": [1.0]}
    with pytest.raises(UserError, match=r'"teacher" has 1 scores for 2 texts'):
        load(row, negatives="neg", teacher_scores="teacher", bad_rows="refuse")


def test_order_of_columns_as_sentence_transformers_counts_them(load):
    rows = [{"label": 1, "anchor": "a", "pos": "b", "n1": "c", "n2": "d"}]
    (train,) = load(*rows, **layout("sentence_transformers")).train
    assert rows_of(train) == [("a", "b", ["c", "d"])]
    (pairs,) = load({"x": "a", "y": "b"}, **layout("sentence_transformers")).train
    assert rows_of(pairs) == [("a", "b", [])]
    scored = layout("sentence_transformers") | {"score": "score"}
    (graded,) = load({"s1": "a", "score": 0.5, "s2": "b"}, task="sts", **scored).train
    assert (rows_of(graded), list(graded.scores)) == ([("a", "b", [])], [0.5])


def test_a_position_that_no_column_has_is_told_with_the_columns(load):
    with pytest.raises(UserError, match=r'no field "2"; there are: only'):
        load({"only": "a"}, **layout("sentence_transformers"))


def test_labelled_texts_are_queries_of_the_names_of_their_labels(load):
    rows = [{"text": t, "label": lab} for t, lab in (("a", "x"), ("b", "y"), ("c", "x"), ("d", 7))]
    (train,) = load(*rows, task="classification", query="text", label="label").train
    assert list(zip(train.queries, train.positives, train.groups, strict=True)) == [
        ("a", "x", "x"),
        ("b", "y", "y"),
        ("c", "x", "x"),
        ("d", "7", "7"),
    ]


def test_labelled_texts_to_be_clustered_are_paired_within_their_label(load):
    rows = [{"text": f"t{n}", "label": str(n % 3)} for n in range(20)]
    rows.append(rows[0])  # no text meets itself
    (train,) = load(*rows, task="clustering", query="text", label="label").train
    pairs = list(zip(train.queries, train.positives, train.groups, strict=True))
    for one, other, group in pairs:
        assert one != other
        assert int(one[1:]) % 3 == int(other[1:]) % 3 == int(group)
    texts = [text for one, other, _ in pairs for text in (one, other)]
    assert len(set(texts)) == len(texts) == 18  # 7 + 7 + 6: each once, odd ones left
    (again,) = load(*rows, task="clustering", query="text", label="label").train
    assert again == train


def test_plain_texts_are_no_pairs(load):
    rows = [{"text": "one"}, {"text": " "}, {"text": "two"}, {"text": "one"}]
    corpus = load(*rows, text="text")
    assert corpus.train == corpus.heldout == ()
    (texts,) = corpus.texts
    assert (texts.name, list(texts.texts), len(texts)) == ("rows", ["one", "two"], 2)
    assert list(load(*rows, text="text", max_examples=1).texts[0].texts) == ["one"]


def test_missing_groups_are_none(load):
    rows = [{"query": "a", "positive": "b", "g": None}, {"query": "c", "positive": "d", "g": "x"}]
    (train,) = load(*rows, group="g").train
    assert list(train.groups) == [None, "x"]


def test_a_pattern_that_fits_no_column_is_told(load):
    with pytest.raises(UserError, match=r'no field "hard_\*"') as refusal:
        load({"query": "a", "positive": "b", "negative_1": "c"}, negatives="hard_*")
    assert refusal.value.hint == "did you mean data.columns.negatives=negative_1?"


def test_rows_say_their_language_and_some_do_not(load):
    rows = [{"query": "cat", "positive": "animal", "code": "en"}]
    rows += [{"query": "Katze", "positive": "Tier", "code": "de"}]
    rows += [{"query": "x", "positive": "y", "code": None}, {"query": "z", "positive": "y"}]
    (train,) = load(*rows, language="code?").train
    assert train.languages == ["en", "de", None, None]
    assert train.select([1]).languages == ["de"]
    (without,) = load(*rows).train
    assert without.languages is None


def test_texts_to_be_clustered_are_paired_within_their_language(load):
    said = [("one", "en"), ("eins", "de"), ("two", "en"), ("zwei", "de")]
    rows = [{"query": text, "label": "n", "code": code} for text, code in said]
    (train,) = load(*rows, task="clustering", label="label", language="code").train
    assert rows_of(train) == [("one", "two", []), ("eins", "zwei", [])]
    assert train.languages == ["en", "de"]
