"""The W&B report is made without W&B: its table, its runs, and panels for what they record."""

from __future__ import annotations

import json

import pytest

from embedexp.config import UserError
from embedexp.sweeps import wandb_report
from embedexp.sweeps.table import table
from embedexp.sweeps.wandb_report import LONGEST_TITLE, publish, specification

from .report_help import finish_all, small

pytest.importorskip("wandb")
TRACKED = ["backbone=tiny", "tracking.mode=offline", "tracking.entity=team", "tracking.project=p"]


@pytest.fixture
def offline(monkeypatch):
    """Nobody is asked: no host can be resolved."""
    import socket

    def refused(*_, **__):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket, "getaddrinfo", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)


def made(tmp_path, *more, **content):
    found = small(tmp_path, base=[*TRACKED, *more], seeds=[0, 1], **content)
    finish_all(found)
    return found


def blocks(spec, kind):
    return [block for block in spec["spec"]["blocks"] if block["type"] == kind]


def test_it_shows_the_table_and_the_runs_of_the_sweep(tmp_path, offline):
    found = made(tmp_path, title="T" * 200, rows={"a_b": [], "c": ["loss.temperature=0.02"]})
    spec = specification(found, table(found))
    assert json.loads(json.dumps(spec)) == spec
    assert spec["project"] == {"name": "p", "entityName": "team"}
    assert len(spec["displayName"]) == LONGEST_TITLE
    (text,) = blocks(spec, "markdown-block")
    assert "| a\\_b |" in text["content"]
    (grid,) = blocks(spec, "panel-grid")
    (runset,) = grid["metadata"]["runSets"]
    told = json.dumps(runset["filters"])
    signatures = {run.config.signature for run in found.runs}
    assert len(signatures) == 4
    assert all(signature in told for signature in signatures)
    assert '"name": "name"' in told  # W&B's word for a run's id


def panels(spec):
    (grid,) = blocks(spec, "panel-grid")
    found = grid["metadata"]["panelBankSectionConfig"]["panels"]
    return {panel["config"]["chartTitle"]: panel["config"] for panel in found}


def test_panels_are_of_what_runs_record(tmp_path, offline):
    dense = made(tmp_path / "dense")
    shown = panels(specification(dense, table(dense)))
    assert list(shown) == ["Loss", "Gradient norm", "Mean score after training"]
    assert shown["Loss"]["metrics"] == ["loss"]
    assert shown["Loss"]["xAxis"] == "trainer/global_step"
    titles = shown["Loss"]["overrideSeriesTitles"]
    for run in dense.runs:
        assert titles[f"{run.config.signature}:loss"] == run.label
    routed = made(tmp_path / "routed", "routing=moe")
    assert "Busiest expert's share of the tokens" in panels(specification(routed, table(routed)))


def test_runs_that_w_and_b_does_not_have_are_no_report(tmp_path):
    found = small(tmp_path)
    with pytest.raises(UserError, match="tracked by W&B"):
        specification(found, table(found))


def test_runs_of_two_projects_are_no_report(tmp_path):
    rows = {"a": ["tracking.project=q"], "b": ["loss.temperature=0.02"]}
    found = small(tmp_path, base=["backbone=tiny"], rows=rows)
    with pytest.raises(UserError, match="2 projects"):
        specification(found, table(found))


def test_w_and_b_saying_no_is_said_in_words(tmp_path, monkeypatch):
    wr, _ = wandb_report._package()
    found = made(tmp_path)

    def refused(*_, **__):
        raise RuntimeError("permission denied\nlong trace")

    monkeypatch.setattr(wr.Runset, "_to_model", refused)
    monkeypatch.setattr(wr.Report, "save", lambda self, draft: self._to_model())
    with pytest.raises(UserError, match="not taken the report: permission denied") as told:
        publish(found, table(found))
    assert "wandb login" in told.value.hint
