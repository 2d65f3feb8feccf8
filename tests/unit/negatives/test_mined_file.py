"""Mined Parquet is attached to its own dataset, by query and positive, with the scores."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedexp import negatives
from embedexp.config.errors import UserError
from embedexp.config.schema.negatives import MinedFile
from embedexp.data import Corpus, Dataset, mined

PLAIN = Dataset("plain", "retrieval", ["a", "b", "c", "a"], ["A", "B", "C", "A2"])


def row(query, negatives_, *, dataset="plain", positives=(), scores=None, positive_scores=()):
    return {
        "dataset": dataset,
        "query": query,
        "positives": list(positives),
        "positive_scores": list(positive_scores),
        "negatives": negatives_,
        "scores": scores if scores is not None else [0.5] * len(negatives_),
    }


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def attach(path, *datasets, count=4):
    option = MinedFile(name="mined_file", path=str(path), count=count)
    return negatives.attach(option, Corpus(datasets or (PLAIN,))).train


def test_rows_are_matched_by_dataset_and_query(tmp_path):
    other = Dataset("other", "clustering", ["a", "z"], ["A", "Z"])
    path = write(
        tmp_path / "m.parquet",
        row("a", ["x", "A2", "y"]),
        row("a", ["o"], dataset="other"),
        row("c", ["z"]),
    )
    plain, second = attach(path, PLAIN, other)
    assert plain.negatives == [["x", "y"], [], ["z"], ["x", "y"]]
    assert second.negatives == [["o"], []]


@pytest.mark.parametrize(
    ("mined", "trained"),
    [
        ("wordnet", "wordnet/definitions"),  # the source had one dataset when it was mined
        ("definitions", "wordnet/definitions"),  # it was mined without a mixture
        ("wordnet/definitions", "wordnet"),
        ("wordnet/definitions", "definitions"),
    ],
)
def test_a_dataset_finds_its_negatives_in_another_mixture(tmp_path, mined, trained):
    path = write(
        tmp_path / "m.parquet", row("a", ["n"], dataset=mined), row("a", ["o"], dataset="other")
    )
    (found,) = attach(path, Dataset(trained, "retrieval", ["a"], ["A"]))
    assert found.negatives == [["n"]]


def test_an_example_takes_the_negatives_of_its_own_positive(tmp_path):
    path = write(
        tmp_path / "m.parquet",
        row("a", ["x", "y"], positives=["A"], positive_scores=[0.9], scores=[0.7, 0.6]),
        row("a", ["z"], positives=["A2"], positive_scores=[0.8], scores=[0.5]),
        row("b", ["w"], positives=["elsewhere"], positive_scores=[0.8]),
    )
    (found,) = attach(path, count=1)
    assert found.negatives == [["x"], ["w"], [], ["z"]]
    scores = [[round(float(s), 4) for s in values] for values in found.teacher_scores]
    assert scores[0] == [0.9, 0.7]
    assert scores[3] == [0.8, 0.5]
    assert math.isnan(scores[1][0])
    assert [len(values) for values in scores] == [2, 2, 1, 2]


def test_negatives_without_scores_bring_no_teacher(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps({"query": "a", "negatives": ["x"]}) + "\n")
    assert attach(path)[0].teacher_scores is None


def folder(path, *, complete=True, **changes):
    write(path / "mined" / "p-00000-of-00001.parquet", row("a", ["x"]))
    content = {
        "format": mined.FORMAT,
        "complete": complete,
        "files": [{"name": "p-00000-of-00001.parquet", "sha256": "0"}],
    }
    (path / "mined" / mined.MANIFEST).write_text(json.dumps(content | changes))
    return path


def test_a_run_and_its_folder_are_read_by_the_manifest(tmp_path):
    run = folder(tmp_path)
    write(run / "mined" / "left-over.parquet", row("b", ["never"]))
    for path in (run, run / "mined"):
        assert attach(path)[0].negatives == [["x"], [], [], ["x"]]
    assert mined.fingerprint(str(run), "k") == mined.fingerprint(str(run / "mined"), "k")


def test_unfinished_mining_is_refused(tmp_path):
    with pytest.raises(UserError, match="not complete: some of its shards are not there"):
        attach(folder(tmp_path / "a", complete=False))
    run = folder(tmp_path / "b")
    (run / "mined" / "p-00000-of-00001.parquet").unlink()
    with pytest.raises(UserError, match=r"p-00000-of-00001\.parquet is missing"):
        attach(run)
    with pytest.raises(UserError, match="has format 99, this version reads"):
        attach(folder(tmp_path / "c", format=99))
    with pytest.raises(UserError, match="holds no mined negatives"):
        attach(tmp_path)


def test_wrong_parquet_is_named(tmp_path):
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"question": ["a"], "negatives": [["x"]]}), path)
    with pytest.raises(UserError, match=r"m\.parquet has no column query of text") as refusal:
        attach(path)
    assert refusal.value.hint == "its columns: question, negatives"
    path.write_bytes(b"no parquet")
    with pytest.raises(UserError, match=r"m\.parquet is no Parquet file, or a damaged one"):
        attach(path)


def test_the_signature_follows_the_content_not_the_path(tmp_path):
    first, copy = (write(tmp_path / name, row("a", ["x"])) for name in ("m.parquet", "n.parquet"))
    changed = write(tmp_path / "o.parquet", row("a", ["y"]))
    one, same, other = (mined.fingerprint(str(p), "k") for p in (first, copy, changed))
    assert one == same != other
