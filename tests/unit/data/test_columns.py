"""Examples in a file are the examples that were put there, whichever way they are read."""

import gc

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.data import columns as module
from embedexp.data.columns import Column, Example, ExampleStore, batches, fingerprint, heads
from embedexp.data.dataset import COLUMNS

COUNT = 250


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "SMALL", 10)
    monkeypatch.setattr(module, "BATCH", 32)


def rows(count=COUNT):
    for n in range(count):
        yield Example(
            f"query {n}",
            f"positive {n} \N{SNOWMAN}",
            tuple(f"negative {n} {k}" for k in range(n % 4)),
            n / 8,
            None if n % 5 == 0 else f"group {n % 3}",
            tuple(float(k) for k in range(1 + n % 4)) if n % 2 else None,
            ("en", "de", None)[n % 3],
        )


def build(cache_dir, values=None, key="key", **options):
    values = rows() if values is None else values
    return ExampleStore.build(
        name="d", task="retrieval", rows=values, cache_dir=cache_dir, key=key, **options
    )


@pytest.fixture
def filed(tmp_path):
    return build(tmp_path)


@pytest.fixture
def listed():
    return build(None)


def test_all_columns_come_back(filed, listed):
    for name in COLUMNS:
        column, values = getattr(filed, name), getattr(listed, name)
        assert isinstance(column, Column)
        assert isinstance(values, list)
        assert list(column) == values == column[:]
        assert len(column) == COUNT
    assert listed.negatives[7] == ["negative 7 0", "negative 7 1", "negative 7 2"]
    assert listed.teacher_scores[:2] == [[], [0.0, 1.0]]
    assert listed.groups[:2] == [None, "group 1"]


@pytest.mark.parametrize(
    "index", [slice(30, 70), slice(None, None, -7), slice(5, 5), slice(-3, 99**9)]
)
def test_slices_are_those_of_a_list(filed, listed, index):
    order = np.random.default_rng(0).permutation(COUNT)[:99]
    for name in COLUMNS:
        assert getattr(filed, name)[index] == getattr(listed, name)[index]
        chosen = getattr(filed.select(order), name)
        assert chosen[index] == getattr(listed.select(order), name)[index]


def test_single_values_and_their_limits(filed, listed):
    for column, values in ((filed.queries, listed.queries), (filed.negatives, listed.negatives)):
        assert [column[n] for n in (0, 31, 32, COUNT - 1, -1, -COUNT)] == [
            values[n] for n in (0, 31, 32, COUNT - 1, -1, -COUNT)
        ]
        for outside in (COUNT, -COUNT - 1):
            with pytest.raises(IndexError):
                column[outside]


def test_selecting_reads_nothing_and_can_be_repeated(filed, listed):
    chosen = filed.select([200, 3, 3, -1])
    assert isinstance(chosen.queries, Column)
    assert chosen.queries[:] == ["query 200", "query 3", "query 3", "query 249"]
    assert chosen.select(np.array([3, 0])).positives[:] == listed.select([249, 200]).positives
    with pytest.raises(IndexError):
        filed.select([COUNT])


def test_batches_cover_a_column_once(filed, listed):
    for column in (filed.queries, listed.queries):
        parts = list(batches(column, 100))
        assert list(map(len, parts)) == [100, 100, 50]
        assert [text for part in parts for text in part] == listed.queries


def test_heads_shorten_lists_without_reading(filed, listed):
    for dataset in (filed, listed):
        assert heads(dataset.negatives, 1)[:5] == [
            [],
            *([f"negative {n} 0"] for n in (1, 2, 3)),
            [],
        ]
    short = heads(heads(filed.negatives, 1), 2)
    assert isinstance(short, Column)
    assert short.select(np.array([3]))[0] == ["negative 3 0"]


def test_known_rows_are_not_read_again(filed, tmp_path):
    def unread():
        raise AssertionError
        yield

    assert build(tmp_path, unread()).queries[:] == filed.queries[:]
    assert build(tmp_path, rows(COUNT - 1), key="other").queries[-1] == "query 248"


def test_few_rows_are_lists_and_leave_no_file(tmp_path):
    assert isinstance(build(tmp_path, rows(10)).queries, list)
    assert list(tmp_path.iterdir()) == []
    assert isinstance(build(tmp_path, rows(11)).queries, Column)


def test_rows_are_taken_as_they_come(tmp_path):
    """No more examples exist at a time than a record batch holds, beyond the first few."""

    class Counted(Example):
        alive = most = 0

        def __new__(cls, *_):
            cls.alive += 1
            cls.most = max(cls.most, cls.alive)
            return super().__new__(cls)

        def __del__(self):
            Counted.alive -= 1

    build(tmp_path, (Counted(f"q{n}", f"p{n}") for n in range(3000)))
    gc.collect()
    assert 32 <= Counted.most <= 100


@pytest.mark.parametrize("cached", [True, False])
def test_columns_that_no_row_has_are_none(tmp_path, cached):
    dataset = build(tmp_path if cached else None, (Example(f"q{n}", "p") for n in range(40)))
    assert [getattr(dataset, name) for name in COLUMNS[2:]] == [None] * 5
    empty = build(tmp_path if cached else None, iter(()), key="empty")
    assert (len(empty), list(empty.queries), empty.scores) == (0, [], None)


@pytest.mark.parametrize("cached", [True, False])
def test_a_score_is_there_for_all_rows_or_none(tmp_path, cached):
    some = (Example(f"q{n}", "p", score=1.0 if n else None) for n in range(40))
    with pytest.raises(ValueError, match="39 of 40 rows have a score"):
        build(tmp_path if cached else None, some)
    assert not list(tmp_path.glob("examples/*"))


def test_fingerprints_follow_the_content(filed, tmp_path):
    again = build(tmp_path / "elsewhere", key="another name")
    assert again.queries.fingerprint == filed.queries.fingerprint
    different = build(tmp_path / "different", rows(COUNT - 1))
    prints = [
        filed.queries.fingerprint,
        filed.positives.fingerprint,
        different.queries.fingerprint,
        filed.select([1, 2]).queries.fingerprint,
        filed.select([2, 1]).queries.fingerprint,
        filed.negatives.fingerprint,
        filed.negatives.heads(1).fingerprint,
        fingerprint(["a", "b"]),
        fingerprint(["ab"]),
        fingerprint(["a", None]),
        fingerprint([["a"], ["b"]]),
        fingerprint([["a", "b"], []]),
        fingerprint([]),
        fingerprint(None),
    ]
    assert len(set(prints)) == len(prints)
    assert fingerprint(filed.queries) == filed.queries.fingerprint


def test_a_damaged_file_is_made_again(tmp_path):
    build(tmp_path)
    (file,) = tmp_path.glob("examples/*/examples.arrow")
    content = bytearray(file.read_bytes())
    place = content.index(b"query 100")
    content[place : place + 5] = b"other"
    file.write_bytes(content)
    assert build(tmp_path).queries[100] == "query 100"


def test_a_reader_that_fails_leaves_no_dataset(tmp_path):
    def breaks():
        yield from rows(100)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        build(tmp_path, breaks())
    assert not list(tmp_path.glob("examples/*"))
    assert len(build(tmp_path)) == COUNT


def test_plain_texts_are_kept_alike(tmp_path):
    def texts():
        return (f"text {n}" for n in range(100))

    options = {"name": "t", "key": "k", "weight": 2.0, "language": "en"}
    filed = ExampleStore.build_texts(texts=texts(), cache_dir=tmp_path, **options)
    listed = ExampleStore.build_texts(texts=texts(), cache_dir=None, **options)
    assert isinstance(filed.texts, Column)
    assert list(filed.texts) == listed.texts == list(texts())
    assert (filed.name, filed.weight, filed.language, len(filed)) == ("t", 2.0, "en", 100)


def test_a_cache_that_cannot_be_written_is_the_users_to_mend(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"can't be written.*\npaths\.cache="):
        build(tmp_path / "file")
