"""Reports show names and texts as they are, whatever characters they hold."""

import json

import numpy as np
import pyarrow as pa
import pytest

from embedexp.negatives import filter_report, mining_report
from embedexp.negatives.filtered import dropped_path
from embedexp.negatives.writing import FACTS, write_parquet

NAMES = ["plain", "cost_$x_$y", r"a$\frac$b", "<img src=x>&"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_and_text_can_be_shown(name, tmp_path):
    found = mining_report.Found(
        rows=1, considered=2, lengths=[1], positives=[0.5], negatives=[0.4], ranks=[0]
    )
    suspect = mining_report.Suspect(-0.1, "<script>1</script>", "p & q", 0.5, "<b>x</b>", 0.4)
    found.kept.append(suspect)
    mining_report.write({name: found}, tmp_path, title=name, rules={"teachers": name})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    assert not [tag for tag in ("<script>", "<b>x", "<img src=x") if tag in page]
    facts = {"dataset": name, "task": "retrieval", "language": "", "pairs": 1, "kept": 1}
    facts |= {"by_rank": 0, "by_score": 0, "top_k": 2, "min_score": None}
    kept = filter_report.Side([0.5], [0])
    filter_report.write(
        [filter_report.Found(facts, kept, filter_report.Side())], tmp_path, title=name
    )
    assert (tmp_path / "report.png").stat().st_size > 5000


def test_dropped_pairs_are_shown_from_the_whole_file(tmp_path):
    rows = 1000
    schema = pa.schema({"rank": pa.int64(), "score": pa.float32()})
    path = tmp_path / "pairs.parquet"
    ranks, scores = np.arange(rows), np.zeros(rows, np.float32)
    batch = pa.RecordBatch.from_arrays([pa.array(ranks), pa.array(scores)], schema=schema)
    facts = {"dataset": "some"}
    schema = schema.with_metadata({FACTS: json.dumps(facts).encode()})
    for to in (path, dropped_path(path)):
        write_parquet(to, schema, iter([batch.replace_schema_metadata(schema.metadata)]))
    (found,) = filter_report.collect([path])
    places = np.array([row["rank"] for row in found.dropped.examples])
    assert len(places) == filter_report.SHOWN
    np.testing.assert_allclose(places, np.linspace(0, rows, filter_report.SHOWN), atol=60)
