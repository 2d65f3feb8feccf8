from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embedexp.runs import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.sweeps.planning import PlannedRun

STAND_IN = Path(__file__).parents[1] / "launch" / "standin"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Make every process started from here use the stand-in stage; also returns its environment."""
    path = os.pathsep.join([str(STAND_IN), str(ROOT), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    return dict(os.environ)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """The override that puts runs below the test's folder."""
    return f"paths.runs={tmp_path / 'runs'}"


@pytest.fixture
def finish() -> Callable[..., RunDirectory]:
    """A way to have a planned run finished, with the given scores by task."""

    def made(
        planned: PlannedRun, scores: dict[str, float], phase: str = "after", kind: str = "Retrieval"
    ) -> RunDirectory:
        run = planned.directory
        run.freeze(planned.config)
        with run.owned():
            run.start("contrastive", seed=planned.config.seed)
            content: dict[str, Any] = {"before": [], "after": [], "settings": {}}
            content[phase] = [
                {"task": task, "type": kind, "metric": "ndcg_at_10", "value": value}
                | {"seconds": 1.0, "fingerprint": "x"}
                for task, value in scores.items()
            ]
            run.evaluation.mkdir()
            run.scores_file.write_text(json.dumps(content))
            run.finish()
        return run

    return made


@pytest.fixture
def fail() -> Callable[[PlannedRun, str], RunDirectory]:
    """A way to have a planned run fail with a message."""

    def made(planned: PlannedRun, message: str) -> RunDirectory:
        run = planned.directory
        run.freeze(planned.config)
        with run.owned():
            run.start("contrastive", seed=planned.config.seed)
            run.fail(message)
        return run

    return made
