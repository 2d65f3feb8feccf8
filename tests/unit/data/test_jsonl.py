"""A user's file is read as declared, and a wrong line is named."""

import gzip
import json
import logging

import pyarrow
import pytest

from embedexp import data
from embedexp.config.errors import UserError

from . import options


def packed(content, name):
    if name.endswith(".zst"):
        return pyarrow.compress(content, "zstd", asbytes=True)
    return gzip.compress(content) if name.endswith(".gz") else content


@pytest.fixture
def write(tmp_path):
    def write(*rows, name="pairs.jsonl"):
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        content = b"\n".join(lines) + b"\n"
        path = tmp_path / name
        path.write_bytes(packed(content, name))
        return path

    return write


def pair(number, **more):
    return {"query": f"question {number}", "positive": f"answer {number}", **more}


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz", "pairs.jsonl.zst"])
def test_pairs_keep_their_order(write, name):
    corpus = data.load(options.jsonl(write(*map(pair, range(5)), name=name)))
    (train,) = corpus.train
    assert (train.name, train.task, corpus.heldout) == ("pairs", "retrieval", ())
    assert train.queries == [f"question {n}" for n in range(5)]
    assert train.positives == [f"answer {n}" for n in range(5)]
    assert train.negatives is train.scores is train.groups is None


def test_columns_are_mapped(write):
    path = write({"q": "a", "d": "b", "hard": ["c", "d"], "topic": 7})
    option = options.jsonl(path, query="q", positive="d", negatives="hard", group="topic")
    (train,) = data.load(option).train
    assert (train.queries, train.positives) == (["a"], ["b"])
    assert (train.negatives, train.groups) == ([["c", "d"]], ["7"])


def test_scores_are_read_for_scored_pairs_only(write):
    path = write(pair(1, score=1), pair(2, score=0.25))
    (graded,) = data.load(options.jsonl(path, task="sts", score="score")).train
    assert graded.scores == [1.0, 0.25]
    (other,) = data.load(options.jsonl(path, task="clustering", score="score")).train
    assert other.scores is None
    with pytest.raises(UserError, match=r"data\.columns\.score names no field"):
        data.load(options.jsonl(path, task="sts"))


def test_empty_and_repeated_pairs_are_skipped_and_counted(write, caplog):
    rows = [pair(1), pair(2), {"query": " \t", "positive": "x"}, pair(1), b"", pair(3, positive="")]
    with caplog.at_level(logging.WARNING):
        (train,) = data.load(options.jsonl(write(*rows))).train
    assert train.queries == ["question 1", "question 2"]
    assert "2 rows skipped: empty text (lines 3, 6)" in caplog.text
    assert "1 row skipped: repeated (line 4)" in caplog.text


def test_useless_hard_negatives_are_skipped_and_counted(write, caplog):
    path = write(pair(1, negatives=["answer 1", "wrong", "", "wrong", "also wrong"]))
    (train,) = data.load(options.jsonl(path, negatives="negatives")).train
    assert train.negatives == [["wrong", "also wrong"]]
    assert "3 hard negatives skipped" in caplog.text


GOOD = {"query": "a", "positive": "b", "negatives": ["c"], "score": 0.5, "group": "g"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"query": "a"}, 'no field "positive"; there are: query'),
        (GOOD | {"positive": 3}, 'the field "positive" must be text, not 3'),
        (GOOD | {"query": None}, 'the field "query" must be text, not None'),
        (GOOD | {"negatives": 7}, 'the field "negatives" must be text or a list of texts, not 7'),
        (GOOD | {"negatives": ["c", 1]}, 'the field "negatives" must be text, not 1'),
        (GOOD | {"score": "0.5"}, 'the field "score" must be a finite number'),
        (GOOD | {"score": True}, 'the field "score" must be a finite number, not True'),
        (GOOD | {"score": float("nan")}, 'the field "score" must be a finite number, not nan'),
        (GOOD | {"group": 0.5}, 'the field "group" must be text or an integer'),
        (GOOD | {"query": "a\0b"}, 'the field "query" has a NUL character'),
        (GOOD | {"query": "a\ud800b"}, 'the field "query" has half of a surrogate pair'),
        (b'{"query": "a\0"}', "a NUL byte"),
        (b'{"query": "caf\xe9"}', "byte 15 is not UTF-8"),
        (b'{"query": "a"', "not JSON"),
        (b'["a", "b"]', "a JSON list where an object is needed"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_wrong_line_is_named(write, line, problem):
    path = write(GOOD, GOOD | {"query": "other"}, line)
    columns = {name: name for name in ("negatives", "score", "group")}
    option = options.jsonl(path, task="sts", bad_rows="refuse", **columns)
    with pytest.raises(UserError) as refusal:
        data.load(option)
    message = str(refusal.value)
    assert message.startswith("pairs.jsonl, line 3: ")
    assert problem in message
    assert 2 <= len(message.splitlines()) <= 3


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [("querry", "query"), ("anchor", "query"), ("answer", "positive"), ("positve", "positive")],
)
def test_wrong_column_name_gets_the_nearest_that_is_there(write, asked, suggested):
    path = write({"query": "a", "positive": "b", "other": "c"})
    column = "positive" if suggested == "positive" else "query"
    with pytest.raises(UserError) as refusal:
        data.load(options.jsonl(path, **{column: asked}))
    assert "there are: query, positive, other" in str(refusal.value)
    assert refusal.value.hint == f"did you mean data.columns.{column}={suggested}?"


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_damaged_archive_is_refused(write, ending):
    path = write(*map(pair, range(2000)), name=f"pairs.jsonl.{ending}")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UserError, match="the compressed file is damaged"):
        data.load(options.jsonl(path))
    path.write_bytes(b"no archive at all")
    with pytest.raises(UserError, match=r"^pairs\.jsonl\.\w+: the compressed file is damaged"):
        data.load(options.jsonl(path))


def test_byte_order_mark_is_no_obstacle(write):
    path = write(b"\xef\xbb\xbf" + json.dumps(pair(1)).encode())
    assert data.load(options.jsonl(path)).train[0].queries == ["question 1"]


def test_missing_file_gets_the_nearest_name(write):
    path = write(pair(1))
    with pytest.raises(UserError, match="does not exist") as refusal:
        data.load(options.jsonl(path.with_name("pears.jsonl")))
    assert refusal.value.hint == f"did you mean {path}?"
    assert "data.path=" in refusal.value.where


def test_other_formats_and_empty_files_are_refused(write, tmp_path):
    with pytest.raises(UserError, match="not a JSON-lines file"):
        data.load(options.jsonl(write(pair(1), name="pairs.csv")))
    with pytest.raises(UserError, match="is a folder"):
        data.load(options.jsonl(tmp_path))
    with pytest.raises(UserError, match="has no pair of texts"):
        data.load(options.jsonl(write(b"")))


def test_fingerprint_follows_the_content_not_the_place(write):
    first, same = write(pair(1)), write(pair(1), name="copy.jsonl")
    other = write(pair(2), name="other.jsonl")
    assert data.fingerprint(options.jsonl(first)) == data.fingerprint(options.jsonl(same))
    assert data.fingerprint(options.jsonl(first)) != data.fingerprint(options.jsonl(other))
    assert data.load(options.jsonl(first)).fingerprint == data.fingerprint(options.jsonl(first))
    assert data.describe(options.jsonl(first)) == [("pairs", "retrieval", None)]


def test_holdout_keeps_whole_queries_out_of_training(write):
    rows = [{"query": f"q{n % 50}", "positive": f"p{n}", "group": str(n % 3)} for n in range(150)]
    corpus = data.load(options.jsonl(write(*rows), holdout=30, group="group"))
    (train,), (heldout,) = corpus.train, corpus.heldout
    assert len(heldout) >= 30
    assert len(train) + len(heldout) == 150
    assert not set(train.queries) & set(heldout.queries)
    for dataset in (train, heldout):  # rows stay whole
        for query, positive, group in zip(
            dataset.queries, dataset.positives, dataset.groups, strict=True
        ):
            number = int(positive[1:])
            assert (query, group) == (f"q{number % 50}", str(number % 3))


def test_holdout_does_not_depend_on_the_other_lines_or_the_limit(write):
    rows = list(map(pair, range(200)))
    before = data.load(options.jsonl(write(*rows), holdout=20)).heldout[0]
    shuffled = data.load(options.jsonl(write(*rows[::-1]), holdout=20, max_examples=5))
    assert sorted(shuffled.heldout[0].queries) == sorted(before.queries)
    assert len(shuffled.train[0]) == 5
    more = data.load(options.jsonl(write(*rows, *map(pair, range(200, 210))), holdout=20))
    assert len(set(more.heldout[0].queries) & set(before.queries)) >= 15


def test_holdout_that_leaves_nothing_is_refused(write):
    with pytest.raises(UserError, match="leaves nothing to train on: there are 3 examples"):
        data.load(options.jsonl(write(*map(pair, range(3))), holdout=3))
