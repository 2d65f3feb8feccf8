"""Rows that cannot be used are never trained on in silence."""

import json
import logging
import random

import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import columns
from embedexp.data.bad_rows import HOPELESS, Seen

from . import options


def pair(number):
    return {"query": f"question {number}", "positive": f"answer {number}"}


@pytest.fixture
def write(tmp_path):
    def write(*rows, name="pairs.jsonl"):
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        (tmp_path / name).write_bytes(b"\n".join(lines))
        return tmp_path / name

    return write


BAD = {
    "not UTF-8": b'{"query": "caf\xe9", "positive": "b"}',
    "not JSON": b'{"query": "a",',
    "not a JSON object": b"[1]",
    "NUL character": {"query": "a\0", "positive": "b"},
    "empty text": {"query": "\u00a0\n", "positive": "b"},
    "missing field": {"query": "a"},
    "wrong type": {"query": "a", "positive": 1},
    "more than 30 characters": {"query": "a", "positive": "b" * 31},
    "repeated": pair(0),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_row_is_skipped_and_counted_by_its_reason(write, caplog, reason):
    path = write(pair(0), pair(1), BAD[reason], pair(2), BAD[reason], pair(3))
    with caplog.at_level(logging.WARNING):
        (train,) = data.load(options.jsonl(path, max_characters=30)).train
    assert list(train.queries) == [f"question {n}" for n in range(4)]
    assert f"pairs: 2 rows skipped: {reason} (lines 3, 5)" in caplog.text


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_row_is_refused_with_its_line(write, reason):
    path = write(pair(0), pair(1), BAD[reason], pair(2))
    with pytest.raises(UserError) as refusal:
        data.load(options.jsonl(path, max_characters=30, bad_rows="refuse"))
    assert str(refusal.value).startswith("pairs.jsonl, line 3: ")
    assert 2 <= len(str(refusal.value).splitlines()) <= 3


def test_too_many_bad_rows_are_an_error_that_says_why(write):
    rows = [*map(pair, range(95)), *[b"{"] * 3, {"query": "a"}, {"query": "", "positive": "b"}]
    path = write(*rows)
    data.load(options.jsonl(path, max_bad_share=0.05))
    with pytest.raises(UserError) as refusal:
        data.load(options.jsonl(path, max_bad_share=0.04))
    assert "5 of 100 rows of pairs cannot be used, more than" in refusal.value.what
    assert "data.max_bad_share=0.04" in refusal.value.what
    assert "3 rows skipped: not JSON (lines 96, 97, 98)" in refusal.value.where
    assert "1 row skipped: missing field (line 99)" in refusal.value.where


def test_repeated_rows_do_not_make_data_bad(write, caplog):
    path = write(*[pair(n % 5) for n in range(100)])
    (train,) = data.load(options.jsonl(path, max_bad_share=0.0)).train
    assert len(train) == 5
    assert "95 rows skipped: repeated (lines 6, 7, 8, 9, 10, …)" in caplog.text


def test_nothing_is_read_on_when_all_rows_so_far_are_bad(write):
    rows = [{"query": "a", "positive": 1}] * HOPELESS
    path = write(*rows, *map(pair, range(10 * HOPELESS)))
    with pytest.raises(UserError, match=f"{HOPELESS:,} of {HOPELESS:,} rows"):
        data.load(options.jsonl(path))


def test_several_files_are_read_in_order_and_bad_rows_named_with_their_file(write, caplog):
    write(pair(0), b"{", name="part-1.jsonl")
    path = write(pair(1), b"{", pair(2), name="part-2.jsonl")
    option = options.jsonl(path.with_name("part-*.jsonl"))
    (train,) = data.load(option).train
    assert (train.name, list(train.queries)) == ("part", [f"question {n}" for n in range(3)])
    assert "skipped: not JSON (part-1.jsonl line 2, part-2.jsonl line 2)" in caplog.text
    assert data.describe(option) == [("part", "retrieval", None)]
    one = data.fingerprint(options.jsonl(path))
    assert data.fingerprint(option) != one
    with pytest.raises(UserError, match="no file fits"):
        data.load(options.jsonl(path.with_name("shard-*.jsonl")))


def test_what_was_skipped_is_told_again_when_the_data_come_from_the_cache(
    write, tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(columns, "SMALL", 10)
    monkeypatch.setattr(columns, "BATCH", 8)
    path = write(*map(pair, range(50)), b"{")
    option = options.jsonl(path, holdout=5, max_examples=20)
    caplog.set_level("INFO")  # locks are told on a lower one
    first = data.load(option, tmp_path / "cache")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["pairs: 1 row skipped: not JSON (line 51)"]
    caplog.clear()
    monkeypatch.setattr("embedexp.data.jsonl.read_lines", None)  # not read again
    again = data.load(option, tmp_path / "cache")
    assert [record.getMessage() for record in caplog.records] == told
    monkeypatch.undo()
    in_memory = data.load(option)
    for corpus in (first, again):
        for mine, plain in zip(
            (*corpus.train, *corpus.heldout), (*in_memory.train, *in_memory.heldout), strict=True
        ):
            assert list(mine.queries) == list(plain.queries)
            assert list(mine.positives) == list(plain.positives)
    assert (len(first.train[0]), len(first.heldout[0])) == (20, 5)


@pytest.mark.parametrize(
    "change", [{"query": "positive", "positive": "query"}, {"max_characters": 8}, {"task": "sts"}]
)
def test_the_cache_does_not_answer_for_other_options(write, tmp_path, monkeypatch, change):
    monkeypatch.setattr(columns, "SMALL", 3)
    monkeypatch.setattr(columns, "BATCH", 2)
    path = write(*[pair(n) | {"score": n, "query": str(n)} for n in range(20)])
    data.load(options.jsonl(path), tmp_path)
    option = options.jsonl(path, score="score", **change)
    (cached,), (plain,) = data.load(option, tmp_path).train, data.load(option).train
    assert list(cached.queries) == list(plain.queries)
    assert (cached.scores is None) == (plain.scores is None)


def test_reading_holds_no_more_than_a_batch_of_rows(write, tmp_path, monkeypatch):
    """Rows are asked for only as the store takes them."""
    monkeypatch.setattr(columns, "SMALL", 10)
    monkeypatch.setattr(columns, "BATCH", 8)
    read, filed = [], []
    path = write(*map(pair, range(100)))
    original = columns._grouped

    def grouped(values, size=8):
        for batch in original(values, size):
            filed.append((len(read), len(batch)))
            yield batch

    from embedexp.data import jsonl

    def counted(file, lines=jsonl.read_lines):
        for each in lines(file):
            read.append(each[0])
            yield each

    monkeypatch.setattr(columns, "_grouped", lambda values: grouped(values))
    monkeypatch.setattr(jsonl, "read_lines", counted)
    data.load(options.jsonl(path), tmp_path)
    assert len(filed) == 13
    ahead = [rows - sum(size for _, size in filed[: n + 1]) for n, (rows, _) in enumerate(filed)]
    assert max(ahead) <= 1


def test_hashes_seen_are_a_set():
    draw = random.Random(0)
    values = [
        draw.randrange(2**63) if draw.random() < 0.7 else draw.randrange(500) + 1
        for _ in range(20_000)
    ]
    seen, reference = Seen(), set()
    for value in values:
        assert seen.add(value) == (value not in reference)
        reference.add(value)
    assert len(seen) == len(reference)
    assert seen._table.itemsize * len(seen._table) <= 24 * len(seen) + 8192
