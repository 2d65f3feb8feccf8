"""Labelled rows are the same from JSON lines, Parquet and a saved dataset."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from embedexp.config.errors import UserError
from embedexp.data.labelled import Address, fingerprint, rows

ROWS = [{"sentence": f"text {i}", "label": i % 2, "idx": i} for i in range(6)]
WANTED = ["sentence", "label"]


def address(folder, subset="cola", split="validation"):
    return Address(str(folder), subset, split, "stage.tasks.cola")


@pytest.fixture
def jsonl(tmp_path):
    (tmp_path / "j" / "cola").mkdir(parents=True)
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "j" / "cola" / "validation.jsonl").write_text(text)
    (tmp_path / "j" / "cola" / "validation_matched.jsonl").write_text("")
    return tmp_path / "j"


def test_json_lines_and_parquet_in_parts_give_the_same_rows(jsonl, tmp_path):
    folder = tmp_path / "p" / "cola"
    folder.mkdir(parents=True)
    for part, some in enumerate((ROWS[:4], ROWS[4:])):
        name = f"validation-0000{part}-of-00002.parquet"
        pq.write_table(pa.Table.from_pylist(some), folder / name)
    expected = [{"sentence": row["sentence"], "label": row["label"]} for row in ROWS]
    assert rows(address(jsonl), WANTED) == expected
    assert rows(address(tmp_path / "p"), WANTED) == expected
    assert rows(address(jsonl), WANTED, 2) == expected[:2]


def test_a_saved_dataset_gives_its_classes_by_name(tmp_path):
    names = ["unacceptable", "acceptable"]
    features = Features({"sentence": Value("string"), "label": ClassLabel(names=names)})
    found = Dataset.from_list([{k: row[k] for k in WANTED} for row in ROWS], features=features)
    DatasetDict({"validation": found}).save_to_disk(str(tmp_path / "saved" / "cola"))
    read = rows(address(tmp_path / "saved"), WANTED)
    assert [row["label"] for row in read] == [names[row["label"]] for row in ROWS]


def test_the_fingerprint_follows_the_content(jsonl):
    before = fingerprint(address(jsonl))
    assert before == fingerprint(address(jsonl))
    with (jsonl / "cola" / "validation.jsonl").open("a") as file:
        file.write(json.dumps(ROWS[0]) + "\n")
    assert fingerprint(address(jsonl)) != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"split": "test"}, "no test.jsonl"),
        ({"subset": "rte"}, "no validation.jsonl"),
        ({"folder": "/nowhere/at/all"}, "is no folder"),
        ({"split": "validation_matched"}, "has no rows"),
    ],
)
def test_what_is_missing_is_named(jsonl, change, words):
    values = {"folder": jsonl, **change}
    with pytest.raises(UserError, match=words):
        rows(address(**values), WANTED)


def test_a_missing_column_is_named_with_the_nearest(jsonl):
    with pytest.raises(UserError, match="no column sentense") as error:
        rows(address(jsonl), ["sentense", "label"])
    assert "did you mean sentence?" in str(error.value.hint)


def test_the_built_in_tasks_share_no_text_between_splits():
    for subset, column in (("wordnet_classes", "text"), ("wordnet_similarity", "text1")):
        train, dev = (
            {row[column] for row in rows(Address("builtin", subset, split, ""), [column])}
            for split in ("train", "validation")
        )
        assert len(dev) > 500
        assert not train & dev
