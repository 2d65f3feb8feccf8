from __future__ import annotations

import os
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parent / "standin"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make every process started from here use the stand-in stage; also returns its environment."""
    path = os.pathsep.join([str(STAND_IN), str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return dict(os.environ)


@pytest.fixture
def base(tmp_path: Path) -> list[str]:
    """Overrides of a small experiment whose runs are made below the test's folder."""
    return ["backbone=tiny", "tracking=none", f"paths.runs={tmp_path / 'runs'}"]
