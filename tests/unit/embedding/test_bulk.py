from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.embedding.bulk import encode_all, parts, reading
from embedexp.embedding.bulk.pieces import join_npy

ROOT = Path(__file__).parents[3]
TEXTS = [f"text number {i}" for i in range(11)]
SETTINGS = {
    "model": "abc",
    "task": "clustering",
    "role": "document",
    "width": None,
    "dtype": "float32",
    "shard_size": 4,
}


class Fake:
    """Vectors that tell which text they are of, and a note of every text that was encoded."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[str] = []
        self.fail_at = fail_at

    def encode(self, texts, *, task, role, width, on_batch):
        if self.fail_at is not None and len(self.seen) >= self.fail_at:
            raise InterruptedError
        self.seen += texts
        on_batch(len(texts))
        return np.array([[int(t.split()[-1]), len(t)] for t in texts], dtype=np.float32)


EXPECTED = np.array([[i, len(text)] for i, text in enumerate(TEXTS)], dtype=np.float32)


def read(to):
    if to.suffix == ".npy":
        return np.load(to)
    if to.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(to)
        assert table.column("row").to_pylist() == list(range(len(table)))
        return np.array(table.column("vector").to_pylist())
    return np.concatenate([np.load(path) for path in sorted(to.glob("*.npy"))])


@pytest.mark.parametrize("name", ["out.npy", "out.parquet", "out"])
def test_an_interrupted_job_goes_on_and_ends_as_an_uninterrupted_one(name, tmp_path):
    to = tmp_path / name
    first = Fake(fail_at=8)
    with pytest.raises(InterruptedError):
        encode_all(TEXTS, lambda: first, to, SETTINGS)
    assert not to.is_file()
    second = Fake()
    found = encode_all(TEXTS, lambda: second, to, SETTINGS)
    assert second.seen == TEXTS[8:]
    assert found["complete"]
    assert found["rows"] == 11
    np.testing.assert_array_equal(read(to), EXPECTED)
    if to.suffix:
        assert not to.with_name(f"{name}.parts").exists()


@pytest.mark.parametrize("name", ["out.npy", "out"])
def test_a_finished_job_loads_no_model(name, tmp_path):
    encode_all(TEXTS, Fake, tmp_path / name, SETTINGS)

    def never():
        raise AssertionError("nothing is left to encode")

    encode_all(TEXTS, never, tmp_path / name, SETTINGS)
    np.testing.assert_array_equal(read(tmp_path / name), EXPECTED)


def test_a_damaged_piece_is_made_again(tmp_path):
    encode_all(TEXTS, Fake, tmp_path / "out", SETTINGS)
    (tmp_path / "out" / "vectors-00001.npy").write_bytes(b"half of i")
    again = Fake()
    encode_all(TEXTS, lambda: again, tmp_path / "out", SETTINGS)
    assert again.seen == TEXTS[4:]
    np.testing.assert_array_equal(read(tmp_path / "out"), EXPECTED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "other"}, "vectors with model=abc, not other"),
        ({"task": "search_query"}, "vectors with task=clustering"),
        ({"width": 1}, "vectors with width=None, not 1"),
        ({"dtype": "float16"}, "vectors with dtype=float32"),
        ({"shard_size": 5}, "vectors with shard_size=4"),
    ],
)
def test_pieces_of_other_settings_are_never_mixed(changes, message, tmp_path):
    encode_all(TEXTS, Fake, tmp_path / "out", SETTINGS)
    with pytest.raises(UserError, match=message):
        encode_all(TEXTS, Fake, tmp_path / "out", SETTINGS | changes)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([*TEXTS[:5], "text number 99", *TEXTS[6:]], "other texts, from text 4 on"),
        (TEXTS[:8], "more texts, from text 8 on"),
        ([*TEXTS, "text number 11"], "other texts, from text 8 on"),
        ([], "no texts"),
    ],
)
def test_pieces_of_other_texts_are_never_mixed(texts, message, tmp_path):
    encode_all(TEXTS, Fake, tmp_path / "out.npy", SETTINGS)
    with pytest.raises(UserError, match=message):
        encode_all(texts, Fake, tmp_path / "out.npy", SETTINGS)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), EXPECTED)


def test_a_finished_file_does_not_pass_for_one_of_more_texts(tmp_path):
    encode_all(TEXTS[:8], Fake, tmp_path / "out.npy", SETTINGS)
    with pytest.raises(UserError, match="is finished, and there are more texts, from 8 on"):
        encode_all(TEXTS, Fake, tmp_path / "out.npy", SETTINGS)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), EXPECTED[:8])


def test_a_finished_folder_takes_more_texts(tmp_path):
    encode_all(TEXTS[:8], Fake, tmp_path / "out", SETTINGS)
    again = Fake()
    encode_all(TEXTS, lambda: again, tmp_path / "out", SETTINGS)
    assert again.seen == TEXTS[8:]
    np.testing.assert_array_equal(read(tmp_path / "out"), EXPECTED)


def test_a_job_killed_before_its_first_piece_was_noted_goes_on(tmp_path):
    code = (
        "import os\n"
        "from pathlib import Path\n"
        "from tests.unit.embedding.test_bulk import Fake, SETTINGS, TEXTS\n"
        "from embedexp.embedding.bulk import encode_all, pieces\n"
        "pieces.file_hash = lambda path: os.kill(os.getpid(), 9)\n"
        f"encode_all(TEXTS, Fake, Path({str(tmp_path / 'out')!r}), SETTINGS)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT)
    assert done.returncode == -9
    assert (tmp_path / "out" / "vectors-00000.npy").is_file()
    encode_all(TEXTS, Fake, tmp_path / "out", SETTINGS)
    np.testing.assert_array_equal(read(tmp_path / "out"), EXPECTED)


def test_what_is_not_ours_is_not_overwritten(tmp_path):
    (tmp_path / "out.npy").write_text("precious")
    with pytest.raises(UserError, match="holds no vectors of this command"):
        encode_all(TEXTS, Fake, tmp_path / "out.npy", SETTINGS)
    assert (tmp_path / "out.npy").read_text() == "precious"


def test_two_processes_do_not_write_to_one_place(tmp_path):
    from embedexp.embedding.bulk.pieces import Pieces

    with (
        Pieces(tmp_path / "out", SETTINGS).owned(),
        pytest.raises(UserError, match="another process writes"),
        Pieces(tmp_path / "out", SETTINGS).owned(),
    ):
        raise AssertionError("not reached")


def test_half_precision_halves_the_file(tmp_path):
    encode_all(TEXTS, Fake, tmp_path / "out.npy", SETTINGS | {"dtype": "float16"})
    assert np.load(tmp_path / "out.npy").dtype == np.float16


def test_parts_hold_no_more_than_their_size():
    taken = []

    def endless():
        for i in range(10**9):
            taken.append(i)
            yield str(i)

    assert next(parts(endless(), 3)) == ["0", "1", "2"]
    assert len(taken) == 3


def write(path, texts):
    if path.suffix == ".txt":
        path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"body": t, "n": 1}) + "\n" for t in texts), "utf-8")
    elif path.suffix == ".csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([["n", "body"], *([i, t] for i, t in enumerate(texts))])
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"body": texts}), path)


@pytest.mark.parametrize("ending", reading.ENDINGS)
def test_each_kind_of_file_gives_its_texts_in_order(ending, tmp_path):
    texts = ["größer", "", 'a, "quoted" text', "猫", "last"]
    path = tmp_path / f"texts{ending}"
    write(path, texts)
    column = None if ending == ".txt" else "body"
    reading.check(str(path), column)
    assert list(reading.texts(str(path), column)) == texts
    assert reading.count(str(path)) in (None, len(texts))
    if column is not None:
        with pytest.raises(UserError, match="which column"):
            reading.check(str(path), None)
        with pytest.raises(UserError, match="there is no column bdy") as error:
            list(reading.texts(str(path), "bdy"))
        assert "did you mean body" in str(error.value)


def test_a_cell_may_hold_a_long_document(tmp_path):
    import csv

    long, limit = "word " * 50_000, csv.field_size_limit()
    write(tmp_path / "texts.csv", ["short", long])
    assert list(reading.texts(str(tmp_path / "texts.csv"), "body")) == ["short", long]
    assert csv.field_size_limit() == limit


def test_more_pieces_than_files_can_be_open_become_one(tmp_path):
    import resource

    paths = [tmp_path / f"{i}.npy" for i in range(300)]
    for i, path in enumerate(paths):
        np.save(path, np.full((1, 2), i, dtype=np.float32))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        join_npy(paths, tmp_path / "all.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert np.load(tmp_path / "all.npy")[:, 0].tolist() == list(range(300))


def test_bad_lines_are_named(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_bytes(b'{"body": "a"}\n{"body": 3}\n')
    with pytest.raises(UserError, match=r"body is int, not a text\n.*texts.jsonl:2"):
        list(reading.texts(str(path), "body"))
    path.write_bytes(b'{"body": "a"}\n["b"]\n')
    with pytest.raises(UserError, match="not a JSON object"):
        list(reading.texts(str(path), "body"))
    plain = tmp_path / "texts.txt"
    plain.write_bytes(b"fine\n\xff\xfe\n")
    with pytest.raises(UserError, match=r"not UTF-8\n.*texts.txt:2"):
        list(reading.texts(str(plain), None))
