"""What a person is told around the execution of a stage."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import embedexp
from embedexp.stage import execute


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """Run overrides with a stage that does nothing; returns what was printed."""

    def run(*overrides: str) -> str:
        idle = SimpleNamespace(run=lambda *_: None)
        monkeypatch.setattr(execute, "implementation", lambda *_: idle)
        small = ["backbone=tiny", "tracking=none", f"paths.runs={tmp_path}"]
        execute.run(embedexp.compose([*small, *overrides]))
        return capsys.readouterr().out

    return run


def test_a_warning_is_said_once(printed):
    assert printed("optimizer.warmup_steps=99").count("warning: ") == 1


def test_a_finished_run_whose_model_was_deleted_says_so(printed):
    printed()
    assert "deleted; rerun=true" in printed()


def test_a_stage_that_trains_nothing_misses_no_model(printed):
    text = printed("stage=zero_shot")
    assert "deleted" not in text
    assert "routing=mote" in text
