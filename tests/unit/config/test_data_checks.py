"""Data that cannot serve the experiment never start it, whatever their format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedexp import compose
from embedexp.config.errors import UserError
from embedexp.config.show import show

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"query": f"q{n}", "positive": f"p{n}", "n": "x", "s": 0.5, "c": "k"} for n in range(100)]


@pytest.fixture(params=["jsonl", "csv", "parquet"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The same rows in each format, as overrides."""
    name = request.param
    path = tmp_path / f"rows.{name}"
    if name == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)))
    elif name == "csv":
        lines = [ROWS[0].keys(), *(row.values() for row in ROWS)]
        path.write_text("\n".join(",".join(map(str, line)) for line in lines))
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    return [f"data={name}", f"data.path={path}", "data.holdout=10"]


def warnings(overrides: list[str]) -> str:
    return "\n".join(compose(overrides).warnings)


WRONG = [
    (["data.columns.query=querry"], 'no field "querry"; there are: query, positive'),
    (["negatives=own"], "data.columns.negatives names no field"),
    (["data.task=sts", "loss=cosent"], "data.columns.score names no field"),
    (["data.columns.label=c"], "makes labelled texts, which teach no retrieval"),
    (["data.columns.positive=null"], "leaves a query without an answer"),
    (["data.columns.text=c"], "of which stage=contrastive can make no use"),
    (["data.columns.teacher_scores=[s]"], "needs two names in a list"),
]


@pytest.mark.parametrize(("overrides", "message"), WRONG, ids=[w[0][0] for w in WRONG])
def test_columns_that_make_no_example_are_refused(
    data: list[str], overrides: list[str], message: str
) -> None:
    with pytest.raises(UserError) as refusal:
        compose([*data, *overrides])
    assert message in str(refusal.value)
    assert refusal.value.hint


def test_columns_without_an_effect_are_told(data: list[str]) -> None:
    assert warnings(data) == ""
    assert "negatives=n has no effect" in warnings([*data, "data.columns.negatives=n"])
    assert warnings([*data, "data.columns.negatives=n", "negatives=own"]) == ""
    assert "score=s has no effect" in warnings([*data, "data.columns.score=s"])
    labelled = ["data.task=classification", "data.columns.label=c"]
    assert warnings([*data, *labelled]) == ""
    assert "group has no effect" in warnings([*data, *labelled, "data.columns.group=s"])


def test_show_says_what_is_read(data: list[str]) -> None:
    text = " ".join(show(compose([*data, "data.columns.negatives=n", "negatives=own"])).split())
    assert "rows (retrieval); query -> positive, hard negatives n; 10 held out" in text
    assert "bad rows skipped, up to 0.05 of all" in text


def test_the_hub_is_asked_only_when_a_run_starts_and_its_newest_version_is_a_risk() -> None:
    hub = ["data=huggingface", "data.dataset=someone/pairs"]
    assert "may change on the hub" in warnings(hub)
    assert warnings([*hub, "data.revision=0123abc"]) == ""


@pytest.mark.parametrize("name", ["csv", "parquet", "huggingface", "beir"])
def test_missing_data_are_refused(name: str) -> None:
    key = "dataset" if name == "huggingface" else "path"
    with pytest.raises(UserError, match="does not exist"):
        compose([f"data={name}", f"data.{key}=./nowhere/at.all"])


def test_layouts_of_other_libraries_are_a_choice(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"query": "q", "pos": ["p"], "neg": ["n"]}\n' * 3)
    common = ["data=jsonl", f"data.path={file}", "negatives=own"]
    assert compose([*common, "+columns=flagembedding"]).data.columns.positive == "pos"  # type: ignore[union-attr]
    assert compose([*common, "+columns=sentence_transformers"]).data.columns.query == 1  # type: ignore[union-attr]


def test_where_the_data_lie_is_no_part_of_the_signature(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("query,positive\na,b\n")
    one, other = (compose(["data=csv", f"data.path={tmp_path / n}"]) for n in ("a.csv", "b.csv"))
    assert one.signature == other.signature
    more = compose(["data=csv", f"data.path={tmp_path / 'a.csv'}", "data.bad_rows=refuse"])
    assert more.signature != one.signature


def test_a_file_of_another_format_names_the_option_that_reads_it(tmp_path):
    path = tmp_path / "pairs.csv.gz"
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"not a JSON-lines file[\s\S]*use data=csv"):
        compose(["data=jsonl", f"data.path={path}"])


def test_languages_of_rows_are_no_languages_of_datasets(data: list[str]) -> None:
    more = ["batching.sampling.by=language", "batching.sampling.temperature=0.3"]
    with pytest.raises(UserError, match=r"data\.columns\.language"):
        compose([*data, *more, "data.columns.language=c"])


def test_a_column_of_languages_is_shown_and_makes_another_experiment(data: list[str]) -> None:
    config = compose([*data, "data.columns.language=c"])
    assert "language c" in show(config)
    assert config.signature != compose(data).signature
    with pytest.raises(UserError, match=r"data\.columns\.language=c"):
        compose([*data, "data.columns.language=cc"])
