"""Tables of cells are read as RFC 4180 means them, and lines are numbered as an editor does."""

import csv
import gzip
import logging

import pyarrow
import pytest

from embedexp import data
from embedexp.config.errors import UserError

from . import options


@pytest.fixture
def write(tmp_path):
    def write(content, name="pairs.csv"):
        raw = content if isinstance(content, bytes) else content.encode()
        if name.endswith(".gz"):
            raw = gzip.compress(raw)
        if name.endswith(".zst"):
            raw = pyarrow.compress(raw, "zstd", asbytes=True)
        (tmp_path / name).write_bytes(raw)
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.csv.gz", "pairs.csv.zst"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_a_spreadsheet_writes_is_read_back(tmp_path, write, name, end):
    rows = [("a, b", 'say "hi"'), ("two\nlines", "café"), ("tab\there", "  spaces  ")]
    path = tmp_path / "plain"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerows([("query", "positive"), *rows])
    (train,) = data.load(options.csv(write(path.read_bytes(), name))).train
    assert (train.name, list(zip(train.queries, train.positives, strict=True))) == ("pairs", rows)


def test_tabs_separate_in_tsv_and_other_delimiters_where_named(write):
    (tabs,) = data.load(options.csv(write("query\tpositive\na,b\tc\n", "pairs.tsv"))).train
    assert (list(tabs.queries), list(tabs.positives)) == (["a,b"], ["c"])
    (bars,) = data.load(options.csv(write("query|positive\na,b|c\n"), delimiter="|")).train
    assert (list(bars.queries), list(bars.positives)) == (["a,b"], ["c"])


def test_lines_are_numbered_through_cells_of_several_lines(write, caplog):
    text = 'query,positive\n"a\n\nb",c\n\nd,\ne,"f\ng"\nh\n"i\n"," "\n'
    with caplog.at_level(logging.WARNING):
        (train,) = data.load(options.csv(write(text))).train
    assert list(train.queries) == ["a\n\nb", "e"]
    assert "2 rows skipped: empty text (lines 6, 10)" in caplog.text
    assert "1 row skipped: not one cell for each column (line 9)" in caplog.text


def test_bytes_that_are_no_text_spoil_only_their_row(write, caplog):
    raw = b"query,positive\na,b\ncaf\xe9,d\ne\0,f\ng,h\n"
    (train,) = data.load(options.csv(write(raw))).train
    assert list(train.queries) == ["a", "g"]
    assert "1 row skipped: not UTF-8 (line 3)" in caplog.text
    assert "1 row skipped: NUL character (line 4)" in caplog.text


def test_numbers_are_read_from_text(write):
    path = write("query,positive,score,topic,kind\na,b,0.5,7,\nc,d,1e-1,,x\n")
    (train,) = data.load(options.csv(path, task="sts", score="score", group="topic")).train
    assert (list(train.scores), list(train.groups)) == ([0.5, 0.1], ["7", None])
    with pytest.raises(UserError, match=r'"kind" must be a finite number, not \'\''):
        data.load(options.csv(path, task="sts", score="kind", bad_rows="refuse"))


def test_empty_cells_of_numbered_negatives_are_none(write, caplog):
    path = write("query,positive,neg1,neg2\na,b,c,\nd,e,,\n")
    (train,) = data.load(options.csv(path, negatives="neg*")).train
    assert [list(row) for row in train.negatives] == [["c"], []]
    assert caplog.text == ""


def test_without_a_header_columns_have_positions(write):
    path = write("a,b,0.5\nc,d,0.25\n")
    option = options.csv(path, header=False, query=2, positive=1, score=3, task="sts")
    (train,) = data.load(option).train
    assert (list(train.queries), list(train.positives)) == (["b", "d"], ["a", "c"])
    assert list(train.scores) == [0.5, 0.25]
    with pytest.raises(UserError, match=r'no field "query"; there are: 1, 2, 3'):
        data.load(options.csv(path, header=False))


def test_a_wrong_column_is_told_with_those_there_are(write):
    path = write("question,answer\na,b\n")
    with pytest.raises(UserError, match=r'no field "query"; there are: question, answer') as one:
        data.load(options.csv(path))
    assert one.value.hint == "did you mean data.columns.query=question?"


def test_a_quotation_mark_that_nothing_closes_is_refused(write, monkeypatch):
    monkeypatch.setattr("embedexp.data.csv.LONGEST_CELL", 1000)
    text = 'query,positive\na,b\n"c,d\n' + "e,f\n" * 1000
    with pytest.raises(UserError, match=r"pairs\.csv, line 3: .*limit") as refusal:
        data.load(options.csv(write(text)))
    assert "quotation mark" in refusal.value.hint
    assert csv.field_size_limit() == 131072  # the interpreter's own, as it was


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('q50\t"never closed', "line 51: a quotation mark that nothing closes"),
        ('"hello" he said\tp50', "line 51: a quotation mark within a cell"),
        ('"q50\tp50\nq51 "x"\tp51', "line 51: a quotation mark within a cell"),
    ],
)
def test_a_stray_quotation_mark_swallows_no_lines(write, line, fault):
    good = [f"q{n}\tp{n}" for n in range(1, 89)]
    path = write("\n".join(["query\tpositive", *good[:49], line, *good[49:]]), "pairs.tsv")
    with pytest.raises(UserError, match=fault) as refusal:
        data.load(options.csv(path))
    assert "data.quoted=false" in refusal.value.hint
    (train,) = data.load(options.csv(path, quoted=False)).train
    assert len(train) == 88 + 1 + line.count("\n")
    assert line.split("\t")[0] in train.queries


def test_headers_that_cannot_be_told_apart_and_empty_files_are_refused(write):
    with pytest.raises(UserError, match='two columns are called "query"'):
        data.load(options.csv(write("query,query\na,b\n")))
    with pytest.raises(UserError, match="is empty"):
        data.load(options.csv(write("")))
    with pytest.raises(UserError, match="has no pair of texts"):
        data.load(options.csv(write("query,positive\n")))


def test_damaged_archive_is_refused(write):
    path = write("query,positive\n" + "".join(f"q{n},p{n * n}\n" for n in range(5000)), "a.csv.zst")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="the compressed file is damaged"):
        data.load(options.csv(path))


def test_fingerprint_follows_the_content(write):
    one = data.fingerprint(options.csv(write("query,positive\na,b\n")))
    same = data.fingerprint(options.csv(write("query,positive\na,b\n", "other.csv")))
    other = data.fingerprint(options.csv(write("query,positive\na,c\n", "third.csv")))
    assert one == same != other
