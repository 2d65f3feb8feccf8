"""A tracker shows a run and never stops it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from embedexp.config import compose
from embedexp.training.tracking import Tracker, start, tags


class Broken:
    """A logger that fails at everything."""

    calls = 0

    def __getattr__(self, name):
        self.calls += 1
        raise ConnectionError("no network")


def test_a_failing_tracker_warns_once_and_is_off(caplog):
    broken = Broken()
    tracker = Tracker(broken)
    with caplog.at_level(logging.WARNING):
        tracker({"loss": 1.0}, 1)
        tracker({"loss": 0.9}, 2)
        tracker.summary({"score": 1})
        tracker.close()
    assert broken.calls == 1
    assert len(caplog.records) == 1


def test_a_missing_package_is_a_hint_on_the_screen_too(caplog, capsys, monkeypatch, tmp_path):
    from embedexp.stage.screen import Screen
    from embedexp.stage.telling import telling

    monkeypatch.setitem(sys.modules, "wandb", None)
    config = SimpleNamespace(tracking=SimpleNamespace(name="wandb"))
    with caplog.at_level(logging.WARNING), telling(Screen()):
        start(config, tmp_path)({"loss": 1.0}, 1)
    assert "pip install embedexp[wandb]" in caplog.text
    assert capsys.readouterr().out.count("pip install embedexp[wandb]") == 1


BLOCK = 2**15


def records(folder):
    """The records of an offline run, in order: blocks of pieces, after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("*.wandb")
    content, place, whole = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if BLOCK - place % BLOCK < 7:  # too little is left of the block for another piece
            place += BLOCK - place % BLOCK
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a record in one piece, or the last of several
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def history(folder):
    """What was logged, step by step."""
    for record in records(folder):
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            yield {i.key or ".".join(i.nested_key): json.loads(i.value_json) for i in items}


def test_a_resumed_run_goes_on_under_one_id_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    config = compose(["backbone=tiny", "tracking.group=sizes-0a1b2c", "routing=moe"])
    for steps in (range(1, 4), range(4, 7)):  # a run that was stopped, and went on
        tracker = start(config, tmp_path)
        for step in steps:
            tracker({"loss": 1 / step}, step)
        if 6 in steps:
            tracker.summary({"scores/WordNetSimilarity": 0.5})
        tracker.close()
        time.sleep(1)  # W&B names its folders by the second
    segments = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert len(segments) == 2
    logged = [line for folder in segments for line in history(folder)]
    assert [line["trainer/global_step"] for line in logged] == [1, 2, 3, 4, 5, 6]
    assert [line["loss"] for line in logged] == [1 / step for step in range(1, 7)]
    for folder in segments:
        found = list(records(folder))
        (run,) = [r.run for r in found if r.WhichOneof("record_type") == "run"]
        assert run.run_id == config.signature
        assert run.display_name == config.run_name
        assert run.project == "embedexp"
        assert run.run_group == "sizes-0a1b2c"
        assert set(run.tags) == set(tags(config))
        values = {u.key: json.loads(u.value_json) for u in run.config.update}
        assert values["routing"]["name"] == "moe"
        metrics = [r.metric for r in found if r.WhichOneof("record_type") == "metric"]
        assert any(m.step_metric == "trainer/global_step" for m in metrics)
    assert "WANDB_MODE" not in os.environ  # other runs of this process are not the tracker's affair


def test_tags_are_the_options_that_the_stage_uses():
    trained = tags(compose(["backbone=tiny", "loss=cosent"]))
    assert "loss=cosent" in trained
    assert "backbone=tiny" in trained
    assert not any(tag.startswith("loss") for tag in tags(compose(["stage=mine"])))


IMPORTS = """
import sys
from embedexp.config import compose
from embedexp.training import tracking
tracking.import_early(compose(["tracking=none"]))
print("wandb" in sys.modules)
tracking.import_early(compose(["tracking=wandb"]))
print("wandb.sdk.launch" in sys.modules, "torch" in sys.modules)
"""


def test_what_a_run_of_wandb_imports_is_imported_before_torch():
    words = [sys.executable, "-c", IMPORTS]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
