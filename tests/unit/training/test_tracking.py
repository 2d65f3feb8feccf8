"""A tracker shows a run and never stops it."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

from embedexp.training.tracking import Tracker, start


class Broken:
    """A W&B run that fails at everything."""

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


def test_a_missing_package_is_a_hint(caplog, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = SimpleNamespace(tracking=SimpleNamespace(name="wandb"))
    with caplog.at_level(logging.WARNING):
        start(config, tmp_path)({"loss": 1.0}, 1)
    assert "pip install embedexp[wandb]" in caplog.text
