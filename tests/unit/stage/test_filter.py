"""stage=filter: from data to the pairs that are kept, which data=parquet reads."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import embedexp
from embedexp import data
from embedexp.config.errors import UserError
from embedexp.stage import filter as stage


@pytest.fixture
def composed(tmp_path):
    """Pairs of which every fifth has the document of another."""
    model = tmp_path / "model"
    embedexp.build_embedder(embedexp.compose(["backbone=tiny"])).save(model)
    topics = ["cats", "stars", "bread", "rivers", "engines", "music", "laws", "snow"]
    lines = [
        {"query": f"{topic} {i} {topic}", "positive": f"{topic} {i} {topic}!"}
        for i in range(3)
        for topic in topics
    ]
    for i in range(0, len(lines), 5):
        lines[i]["positive"] = f"wholly unrelated words, number {i}"
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def compose(*more):
        return embedexp.compose(
            [
                "stage=filter", f"stage.teacher={model}", "data=jsonl", f"data.path={pairs}",
                "data.holdout=0", "tracking=none", f"paths.runs={tmp_path / 'runs'}",
                f"paths.cache={tmp_path / 'cache'}", *more,
            ]
        )  # fmt: skip

    return compose


def run(config):
    return embedexp.run(config, quiet=True)


def test_kept_pairs_are_data_and_dropped_ones_are_reported(composed, tmp_path):
    done = run(composed("stage.top_k=1"))
    kept = done.path / "filtered" / "pairs.parquet"
    table = pq.read_table(kept).to_pylist()
    assert 0 < len(table) < 24
    assert all(row["rank"] == 0 for row in table)
    dropped = pq.read_table(done.path / "filtered" / "dropped" / "pairs.parquet").to_pylist()
    assert len(table) + len(dropped) == 24
    assert all(row["rank"] >= 1 for row in dropped)
    assert "wholly unrelated" in " ".join(row["positive"] for row in dropped)
    page = (done.path / "report.html").read_text()
    assert dropped[0]["positive"] in page
    assert f"{len(table) / 24:.1%}" in page
    config = embedexp.compose(["data=parquet", f"data.path={kept}", "data.holdout=0"])
    (read,) = data.load(config.data).train
    assert list(read.queries) == [row["query"] for row in table]
    assert list(read.positives) == [row["positive"] for row in table]


def test_a_score_floor_drops_more(composed):
    every = pq.read_table(run(composed("stage.top_k=24")).path / "filtered" / "pairs.parquet")
    scores = np.array(every["score"])
    assert len(scores) == 24
    floor = float(np.quantile(scores, 0.5))
    found = run(composed("stage.top_k=24", f"stage.min_score={floor}"))
    kept = np.array(pq.read_table(found.path / "filtered" / "pairs.parquet")["score"])
    assert len(kept) == 12
    assert kept.min() >= floor - 1e-6


def test_smaller_shards_hold_fewer_competitors(composed):
    ranks = []
    for size in (24, 4):
        done = run(composed("stage.top_k=24", f"stage.shard_pairs={size}"))
        ranks.append(np.array(pq.read_table(done.path / "filtered" / "pairs.parquet")["rank"]))
    assert ranks[1].max() <= 3 < ranks[0].max()


def test_a_finished_dataset_is_not_filtered_again(composed, monkeypatch):
    done = run(composed("name=first"))
    assert done.path.is_dir()
    config = composed()
    half = composed("name=first").model_copy(update={"rerun": False})
    (done.path / "status.json").unlink()
    monkeypatch.setattr(stage, "consistency_filter", None)
    run(half)  # as after a stop between the last file and the report
    with pytest.raises(TypeError):
        run(config)


def test_bm25_cannot_filter(composed):
    with pytest.raises(UserError, match="bm25 has none of"):
        composed("stage.teacher=bm25")


def test_a_floor_alone_drops_by_score_and_never_by_rank(composed):
    result = embedexp.run(composed("stage.top_k=null", "stage.min_score=0.9"), quiet=True)
    (path,) = (result.path / stage.FOLDER).glob("*.parquet")
    kept = pq.read_table(path).to_pydict()
    assert kept["score"]
    assert min(kept["score"]) >= 0.9
    dropped = pq.read_table(path.parent / "dropped" / path.name).to_pydict()
    assert len(kept["score"]) + len(dropped["score"]) == 24
    assert max(dropped["score"], default=0) < 0.9
    assert (result.path / "report.html").is_file()


def test_a_filter_without_a_rule_is_refused(composed):
    with pytest.raises(UserError, match="keeps every pair"):
        composed("stage.top_k=null")


def test_pairs_of_a_mixed_file_are_compared_and_counted_by_language(composed, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    lines = [json.loads(line) for line in pairs.read_text().splitlines()]
    codes = ["de" if i % 3 == 0 else "en" for i in range(len(lines))]
    said = [line | {"code": code} for line, code in zip(lines, codes, strict=True)]
    pairs.write_text("".join(json.dumps(line) + "\n" for line in said))
    config = composed("stage.top_k=1", "data.columns.language=code")
    assert config.signature != composed("stage.top_k=1").signature
    done = run(config)
    folder = done.path / "filtered"
    kept = pq.read_table(folder / "pairs.parquet").to_pylist()
    dropped = pq.read_table(folder / "dropped" / "pairs.parquet").to_pylist()
    ranks = {row["query"]: row["rank"] for row in kept + dropped}
    spoken = {row["query"]: row["language"] for row in kept + dropped}
    assert [spoken[line["query"]] for line in lines] == codes
    for code in ("de", "en"):  # as if the others were not there
        own = [line for line in said if line["code"] == code]
        pairs.write_text("".join(json.dumps(line) + "\n" for line in own))
        alone = run(composed("stage.top_k=99"))
        for row in pq.read_table(alone.path / "filtered" / "pairs.parquet").to_pylist():
            assert ranks[row["query"]] == row["rank"]
    shares = {
        code: sum(row["language"] == code for row in kept) / codes.count(code)
        for code in ("de", "en")
    }
    page = (done.path / "report.html").read_text().replace(' class="number"', "")
    for code, share in shares.items():
        assert f"<td>{code}</td><td>{codes.count(code)}</td><td>{share:.1%}</td>" in page
    read = embedexp.compose(
        ["data=parquet", f"data.path={folder / 'pairs.parquet'}", "data.columns.language=language"]
    )
    (train,) = data.load(read.data.model_copy(update={"holdout": 0})).train
    assert train.languages == [row["language"] for row in kept]
