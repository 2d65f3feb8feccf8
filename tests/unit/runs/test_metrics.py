"""metrics.jsonl survives crashes and resumes without a lost or doubled line."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np

from embedexp.runs.metrics import Metrics

if TYPE_CHECKING:
    from pathlib import Path


def test_lines_are_on_disk_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.append({"step": 1, "loss": np.float32(0.5), "terms": {"infonce": 0.5}})
    assert Metrics(metrics.path).read() == [{"step": 1, "loss": 0.5, "terms": {"infonce": 0.5}}]


def test_torn_last_line_is_ignored_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    assert Metrics(path).read() == [{"step": 1}]
    metrics = Metrics(path)
    metrics.append({"step": 2})
    assert metrics.read() == [{"step": 1}, {"step": 2}]


def test_resume_drops_the_lines_after_its_checkpoint(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    for step in range(1, 8):
        metrics.append({"step": step})
    metrics.append({"note": "without a step"})
    metrics.truncate(5)
    for step in range(6, 9):
        metrics.append({"step": step})
    steps = [line["step"] for line in metrics.read() if "step" in line]
    assert steps == list(range(1, 9))
    assert {"note": "without a step"} in metrics.read()


def test_numbers_that_are_not_finite_stay_json_and_come_back(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.append({"step": 1, "loss": math.nan, "low": -math.inf})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(metrics.path.read_text(), parse_constant=refuse)
    (line,) = metrics.read()
    assert math.isnan(line["loss"])
    assert line["low"] == -math.inf


def test_reading_what_was_never_written_gives_nothing(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path / "metrics.jsonl")
    metrics.truncate(0)
    assert metrics.read() == []
