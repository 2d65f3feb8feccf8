"""A BEIR folder gives the pairs that its judgements mean."""

import gzip
import json
import logging

import pytest

from embedexp import data
from embedexp.config.errors import UserError

from . import options


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "fiqa"
    (root / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": "d1", "title": "Title", "text": "text one", "metadata": {}},
        {"_id": "d2", "title": "", "text": "text two"},
        {"_id": 3, "text": "text three"},
        {"_id": "d4", "title": "never", "text": "judged"},
    ]
    queries = [{"_id": f"q{n}", "text": f"query {n}"} for n in range(4)]
    (root / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (root / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = ["query-id\tcorpus-id\tscore", "q0\td1\t1", "q0\td2\t2", "q1\t3\t1", "q2\td1\t0"]
    (root / "qrels" / "train.tsv").write_text("\n".join(rows) + "\r\n")
    (root / "qrels" / "test.tsv").write_text("q3\td2\t1\n")
    return root


def test_judgements_above_zero_are_pairs_of_query_and_titled_text(folder):
    corpus = data.load(options.beir(folder))
    (train,) = corpus.train
    assert (train.name, train.task) == ("fiqa", "retrieval")
    assert list(zip(train.queries, train.positives, strict=True)) == [
        ("query 0", "Title text one"),
        ("query 0", "text two"),
        ("query 1", "text three"),
    ]


def test_the_split_is_chosen_and_a_header_not_required(folder):
    (test,) = data.load(options.beir(folder, split="test")).train
    assert list(test.queries) == ["query 3"]
    with pytest.raises(UserError, match=r"no qrels/dev\.tsv; there are: test, train"):
        data.describe(options.beir(folder, split="dev"))


def test_judgements_that_lead_nowhere_are_bad_rows(folder, caplog):
    with (folder / "qrels" / "train.tsv").open("a") as file:
        file.write("q9\td1\t1\nq1\td9\t1\nq1 d1 1\nq0\td1\t1\n")
    with caplog.at_level(logging.WARNING):
        (train,) = data.load(options.beir(folder)).train
    assert len(train) == 3
    for told in (
        "unknown query (line 6)",
        "unknown document (line 7)",
        "not a judgement (line 8)",
        "repeated (line 9)",
    ):
        assert f"1 row skipped: {told}" in caplog.text
    with pytest.raises(UserError, match=r"train\.tsv, line 6: no query q9 in queries\.jsonl"):
        data.load(options.beir(folder, bad_rows="refuse"))


def test_texts_are_joined_as_mteb_joins_them(folder):
    from datasets import Dataset as HubDataset
    from mteb._create_dataloaders import _corpus_to_dict

    rows = HubDataset.from_list(
        [{"id": "d1", "title": "Title", "text": "text one"}, {"id": "d2", "title": "", "text": "x"}]
    )
    (train,) = data.load(options.beir(folder)).train
    assert train.positives[0] == _corpus_to_dict(rows[0])["text"]


def test_a_packed_corpus_is_read(folder):
    plain = folder / "corpus.jsonl"
    before = list(data.load(options.beir(folder)).train[0].positives)
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert list(data.load(options.beir(folder)).train[0].positives) == before


def test_a_folder_without_a_part_is_refused(folder, tmp_path):
    (folder / "queries.jsonl").unlink()
    with pytest.raises(UserError, match=r"has no queries\.jsonl"):
        data.describe(options.beir(folder))
    with pytest.raises(UserError, match="does not exist"):
        data.describe(options.beir(tmp_path / "nowhere"))


def test_a_damaged_line_of_the_corpus_is_named(folder):
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('\n{"_id": "d5"')
    with pytest.raises(UserError, match=r"corpus\.jsonl, line 5: not JSON"):
        data.load(options.beir(folder))


def test_fingerprint_follows_every_file(folder):
    option = options.beir(folder)
    seen = {data.fingerprint(option)}
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv"):
        with (folder / name).open("a") as file:
            file.write("\n")
        seen.add(data.fingerprint(option))
    assert len(seen) == 4
