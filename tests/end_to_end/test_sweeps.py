"""A pipeline on real data: planned as a whole, run in order, and its table printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from embedexp.runs import Run, State
from embedexp.sweeps.file import read
from embedexp.sweeps.launching import launch
from embedexp.sweeps.planning import plan
from embedexp.sweeps.table import table

if TYPE_CHECKING:
    from pathlib import Path

SMALL = [
    "evaluation.tasks=[WordNetSimilarity]",
    "evaluation.max_examples=50",
    "training.steps=3",
    "batching.size=8",
]
PIPELINE = {
    "title": "Pipeline",
    "question": "Does the last run measure what the one before has trained?",
    "mode": "chain",
    "base": ["backbone=tiny", "tracking=none", "data.max_examples=200"],
    "stages": {
        "train": [*SMALL, "data.tasks=[retrieval]"],
        "goes on": [*SMALL, "backbone.weights=pretrained", "backbone.source={train}"],
        "measured": ["stage=evaluate", "stage.model={goes on}", *SMALL[:2]],
    },
    "rows": {
        "start": {"show": "goes on", "phase": "before"},
        "train": {"show": "train"},
        "end": {"show": "goes on"},
        "measured": {"show": "measured"},
    },
}


def test_each_stage_reads_what_the_one_before_has_left(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(PIPELINE, sort_keys=False), encoding="utf-8")
    typed = [f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}"]
    planned = plan(read(file), typed)
    outcomes = launch(planned, file, "local", {"processes": 1, "snapshot": False})
    assert [(one.state, one.remark) for one in outcomes] == [("finished", "")] * 3
    assert [run.directory.status.state for run in planned.runs] == [State.FINISHED] * 3
    made = table(planned)
    values = {row: made.entries[row, "", "mean over tasks"].values[0] for row in made.rows}
    # What one stage ends with, the next one starts with, to the last digit.
    assert values["start"] == values["train"]
    assert values["measured"] == values["end"]
    assert values["end"] != values["start"]
    recorded = json.loads(next((tmp_path / "runs" / ".multirun").glob("*.json")).read_text())
    assert recorded["source"] == str(file.resolve())
    assert Run(planned.runs[0].directory).model.is_dir()
