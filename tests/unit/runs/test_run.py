"""A run as a result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from embedexp.runs import Run

if TYPE_CHECKING:
    from embedexp.runs import RunDirectory

SCORE = {"task": "Toy", "type": "STS", "metric": "cosine_spearman", "value": 0.5}
WHOLE = {"before": [], "after": [SCORE], "settings": {}}


def write(run: RunDirectory, text: str) -> None:
    run.evaluation.mkdir(exist_ok=True)
    run.scores_file.write_text(text)


def test_scores_are_those_of_the_file(run: RunDirectory) -> None:
    assert Run(run).scores == {"before": [], "after": []}
    write(run, json.dumps(WHOLE))
    assert Run(run).scores == {"before": [], "after": [SCORE]}


@pytest.mark.parametrize("text", ["", "[]", '{"before": []}', json.dumps(WHOLE)[:60], '"x"'])
def test_a_damaged_file_of_scores_has_none(run: RunDirectory, text: str) -> None:
    write(run, text)
    assert Run(run).scores == {"before": [], "after": []}
