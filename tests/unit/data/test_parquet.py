"""Parquet files are read in batches, only the columns that are named, and rows are numbered."""

import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import parquet

from . import options


@pytest.fixture
def write(tmp_path):
    def write(name="pairs.parquet", **columns):
        pq.write_table(pa.table(columns), tmp_path / name, row_group_size=3)
        return tmp_path / name

    return write


def numbered(count, start=0):
    return {
        "query": [f"question {n}" for n in range(start, start + count)],
        "positive": [f"answer {n}" for n in range(start, start + count)],
    }


def test_rows_keep_their_order_and_lists_are_lists(write):
    path = write(**numbered(10), neg=[[f"n{n}"] if n % 2 else None for n in range(10)])
    (train,) = data.load(options.parquet(path, negatives="neg")).train
    assert (train.name, train.task) == ("pairs", "retrieval")
    assert list(train.queries) == [f"question {n}" for n in range(10)]
    assert [list(row) for row in train.negatives] == [[f"n{n}"] if n % 2 else [] for n in range(10)]


def test_only_named_columns_are_read(write, monkeypatch):
    asked = []
    original = pq.ParquetFile.iter_batches

    def spy(self, *sizes, columns):
        asked.append(columns)
        return original(self, *sizes, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    data.load(
        options.parquet(write(**numbered(4), other=[0] * 4, neg1=["a"] * 4), negatives="neg*")
    )
    assert asked == [["query", "positive", "neg1"]]


def test_positions_count_all_columns_of_the_file(write):
    path = write(id=[1], a=["q"], b=["p"], c=["n"], label=["l"])
    (train,) = data.load(options.parquet(path, query=2, positive=3, negatives=4)).train
    assert (train.queries[0], train.positives[0], list(train.negatives[0])) == ("q", "p", ["n"])


def test_a_later_file_may_have_more_numbered_columns(write, tmp_path):
    write("a-0.parquet", **numbered(1), neg_1=["x"])
    write("a-1.parquet", **numbered(1, start=1), neg_1=["y"], neg_2=["z"])
    (train,) = data.load(options.parquet(tmp_path / "a-*.parquet", negatives="neg_*")).train
    assert [list(row) for row in train.negatives] == [["x"], ["y", "z"]]


def test_several_files_and_batches_are_one_dataset(write, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BATCH", 4)
    write("a-0.parquet", **numbered(7))
    write("a-1.parquet", **numbered(5, start=7))
    option = options.parquet(tmp_path / "a-*.parquet")
    (train,) = data.load(option).train
    assert list(train.queries) == [f"question {n}" for n in range(12)]
    assert data.describe(option) == [("a", "retrieval", None)]


def test_bad_rows_are_named_by_their_row(write, caplog):
    columns = numbered(9)
    columns["query"][4] = None
    columns["positive"][7] = "  "
    with caplog.at_level(logging.WARNING):
        (train,) = data.load(options.parquet(write(**columns))).train
    assert len(train) == 7
    assert "1 row skipped: wrong type (row 5)" in caplog.text
    assert "1 row skipped: empty text (row 8)" in caplog.text


def test_text_that_is_not_utf8_spoils_only_its_row(tmp_path, caplog):
    def texts(values):
        return pa.array(values, pa.binary()).view(pa.string())

    lists = pa.ListArray.from_arrays([0, 1, 2, 3], texts([b"n", b"m", b"o\xff"]))
    table = pa.table({"query": texts([b"a", b"caf\xe9", b"c"]), "positive": texts([b"b"] * 3)})
    path = tmp_path / "bytes.parquet"
    pq.write_table(table.append_column("neg", lists), path)
    (train,) = data.load(options.parquet(path, negatives="neg")).train
    assert list(train.queries) == ["a"]
    assert "2 rows skipped: not UTF-8 (rows 2, 3)" in caplog.text


def test_wrong_columns_and_files_are_refused(write, tmp_path):
    path = write(question=["a"], answer=["b"])
    with pytest.raises(UserError, match=r'no field "query"; there are: question, answer'):
        data.load(options.parquet(path))
    assert data.missing_column(options.parquet(path)).hint == (
        "did you mean data.columns.query=question?"
    )
    assert data.missing_column(options.parquet(path, query="question", positive="answer")) is None
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(UserError, match="cannot be read as Parquet"):
        data.load(options.parquet(tmp_path / "bad.parquet"))
    with pytest.raises(UserError, match="is not a Parquet file"):
        data.load(options.parquet(write("pairs.feather", **numbered(2))))


def test_fingerprint_is_that_of_the_bytes(write):
    one = data.fingerprint(options.parquet(write(**numbered(3))))
    assert data.fingerprint(options.parquet(write("same.parquet", **numbered(3)))) == one
    assert data.fingerprint(options.parquet(write("more.parquet", **numbered(4)))) != one
