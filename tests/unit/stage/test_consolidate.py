"""Which checkpoint becomes a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedexp.config.errors import UserError
from embedexp.runs import RunDirectory
from embedexp.stage.consolidate import consolidate
from embedexp.training import checkpoint


def test_the_newest_is_not_taken_for_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(RunDirectory, "config", None)
    monkeypatch.setattr(checkpoint, "checkpoints", lambda _: [Path("step-1"), Path("step-2")])
    monkeypatch.setattr(checkpoint, "is_whole", lambda _: True)
    monkeypatch.setattr(checkpoint, "loss_of", lambda _: None)
    with pytest.raises(UserError, match=r"no checkpoint .* says its loss"):
        consolidate(RunDirectory(tmp_path), best=True)
