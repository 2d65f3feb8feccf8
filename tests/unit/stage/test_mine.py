"""stage=mine: a resumable run from data to a file of negatives and a report."""

import json

import pyarrow.parquet as pq
import pytest

import embedexp
from embedexp.config.errors import UserError
from embedexp.negatives import mining
from embedexp.stage import mine as stage
from embedexp.stage.teachers import teacher as load_teacher
from embedexp.training.interrupt import InterruptedRunError

LINES = [
    {
        "query": f"what is thing {i}",
        "positive": f"thing {i} is a kind of {i % 7}",
        "group": f"{i % 9}",
    }
    for i in range(40)
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small teacher in a folder."""
    path = tmp_path_factory.mktemp("teacher") / "model"
    embedexp.build_embedder(embedexp.compose(["backbone=tiny"])).save(path)
    return path


@pytest.fixture
def composed(tmp_path, model):
    """The stage's config over forty pairs, with more overrides."""
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(line) + "\n" for line in LINES))

    def compose(*more):
        return embedexp.compose(
            [
                "stage=mine",
                f"stage.teachers=[{model}]",
                "stage.rules.percent_of_positive=null",
                "data=jsonl",
                f"data.path={pairs}",
                "data.holdout=0",
                "tracking=none",
                f"paths.runs={tmp_path / 'runs'}",
                f"paths.cache={tmp_path / 'cache'}",
                *more,
            ]
        )

    return compose


def run(config):
    return embedexp.run(config, quiet=True)


def rows(done):
    files = json.loads((done.path / "mined" / "manifest.json").read_text())["files"]
    return [
        row
        for entry in files
        for row in pq.read_table(done.path / "mined" / entry["name"]).to_pylist()
    ]


def test_what_is_mined_trains_and_is_never_a_positive(composed, tmp_path):
    done = run(composed("stage.count=3"))
    found = rows(done)
    assert [row["query"] for row in found] == [line["query"] for line in LINES]
    assert all(len(row["negatives"]) == 3 for row in found)
    assert not any(row["positives"][0] in row["negatives"] for row in found)
    assert all(row["scores"] == sorted(row["scores"], reverse=True) for row in found)
    trained = run(
        embedexp.compose(
            [
                "backbone=tiny", "evaluation=none", "training.steps=2", "batching.size=8",
                "optimizer.warmup_steps=1", "data=jsonl", f"data.path={tmp_path / 'pairs.jsonl'}",
                "data.holdout=0", "negatives=mined_file", f"negatives.path={done.path}",
                "negatives.count=2", "tracking=none", f"paths.runs={tmp_path / 'runs'}",
                f"paths.cache={tmp_path / 'cache'}",
            ]
        )
    )  # fmt: skip
    assert len(trained.metrics()) == 2


def test_a_mined_set_is_counted_by_language(composed, tmp_path, capsys):
    said = [line | {"code": "de" if i < 10 else "en"} for i, line in enumerate(LINES)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    done = embedexp.run(composed("stage.count=2", "data.columns.language=code"))
    assert [row["language"] for row in rows(done)] == ["de"] * 10 + ["en"] * 30
    shown = capsys.readouterr()
    shown = shown.out + shown.err
    assert "pairs: 80 negatives for 40 queries" in shown
    assert "pairs, de: 20 negatives for 10 queries" in shown
    assert "pairs, en: 60 negatives for 30 queries" in shown
    page = (done.path / "report.html").read_text().replace(' class="number"', "")
    assert "<td>pairs, de</td><td>10</td><td>20</td>" in page


def test_siblings_are_not_mined(composed):
    found = rows(
        run(composed("data.columns.group=group", "stage.count=40", "stage.rules.rank_max=40"))
    )
    group = {line["positive"]: line["group"] for line in LINES}
    assert all(
        group[negative] != group[row["positives"][0]]
        for row in found
        for negative in row["negatives"]
    )
    assert min(len(row["negatives"]) for row in found) >= 30


def test_the_report_shows_texts_as_they_are(composed, tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    bold = {"query": "<b>bold</b>", "positive": "<script>alert(1)</script>"}
    pairs.write_text(pairs.read_text() + json.dumps(bold) + "\n")
    done = run(composed())
    page = (done.path / "report.html").read_text()
    assert "<script>" not in page
    assert "suspected false negatives" in page
    assert (done.path / "report.png").read_bytes()[:4] == b"\x89PNG"


def test_a_stopped_run_repeats_one_shard_and_ends_in_the_same_files(
    composed, monkeypatch, tmp_path
):
    whole = run(composed("stage.shards=4", f"paths.runs={tmp_path / 'whole'}"))
    kept, searched = stage.mine_with, []

    def stop_in_third(*args, rows, **options):
        searched.append(rows.start)
        if len(searched) == 3:
            raise InterruptedRunError("SIGTERM")
        return kept(*args, rows=rows, **options)

    monkeypatch.setattr(stage, "mine_with", stop_in_third)
    with pytest.raises(InterruptedRunError):
        run(composed("stage.shards=4"))
    resumed = run(composed("stage.shards=4"))
    assert searched == [0, 10, 20, 20, 30]
    assert resumed.path.name == whole.path.name
    manifests = [(done.path / "mined" / "manifest.json").read_text() for done in (whole, resumed)]
    assert manifests[0] == manifests[1]  # it has the content's hash of every file


def test_shards_mined_apart_are_gathered(composed, monkeypatch):
    expected = rows(run(composed("stage.shards=2", "name=alone")))
    for shard in (0, 1):
        part = run(composed("stage.shards=2", f"stage.shard={shard}"))
        assert len(rows(part)) == 20
        path = f"negatives.path={part.path}"
        with pytest.raises(UserError, match="not complete"):
            embedexp.compose(["negatives=mined_file", path])
    monkeypatch.setattr(stage, "mine_with", None)  # nothing is left to mine
    assert rows(run(composed("stage.shards=2"))) == expected


def test_vectors_are_kept_for_the_next_run(composed, monkeypatch):
    run(composed())
    loaded = []

    def watched(*arguments):
        found = load_teacher(*arguments)
        monkeypatch.setattr(found.embedder, "encode", lambda *_, **__: loaded.append(1))
        return found

    monkeypatch.setattr(stage, "teacher", watched)
    run(composed("stage.count=7"))
    assert loaded == []


def test_lexical_and_dense_teachers_go_together(composed, model):
    pytest.importorskip("bm25s")
    found = rows(
        run(
            composed(
                f"stage.teachers=[{model},bm25]", "stage.combination=agreement", "stage.count=2"
            )
        )
    )
    assert any(row["negatives"] for row in found)
    with pytest.raises(UserError, match="mean"):
        composed(f"stage.teachers=[{model},bm25]", "stage.combination=mean")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["stage.shards=2", "stage.shard=2"], "stage.shard=2"),
        (["stage.rules.rank_max=3"], "rank"),
        (["stage.rules.rank_min=99"], "rank"),
        (["stage.teachers=[./nowhere]"], "nowhere"),
        (["stage.teachers=[minilm,minilm]"], "twice"),
        (["stage.rules.reference=each", "stage.rules.percent_of_positive=null"], "each"),
    ],
)
def test_what_cannot_work_never_starts(composed, overrides, message):
    with pytest.raises(UserError, match=message):
        composed(*overrides)


def test_block_size_of_the_search_is_the_stages(composed, monkeypatch):
    seen = []
    kept = mining._block
    monkeypatch.setattr(
        mining,
        "_block",
        lambda part, *rest: seen.append(part.stop - part.start) or kept(part, *rest),
    )
    run(composed("stage.search.tile.block=15"))
    assert seen == [15, 15, 10]
