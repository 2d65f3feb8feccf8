"""A run whose steps teach nothing says so: a loss of zero looks like success."""

from __future__ import annotations

import json

import embedexp
from tests.end_to_end.conftest import overrides


def composed(folder, labels):
    path = folder / "labelled.jsonl"
    rows = [{"text": f"text number {i}", "label": labels[i % len(labels)]} for i in range(64)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["data=jsonl", f"data.path={path}", "data.task=classification", "data.holdout=0"]
    words += ["data.columns.query=text", "data.columns.label=label", "evaluation=none"]
    tiny = [word for word in overrides(folder) if not word.startswith(("evaluation.", "data."))]
    return embedexp.compose([*tiny, *words, "training.steps=2", "optimizer.warmup_steps=0"])


def test_one_label_for_all_is_warned_of_once(tmp_path, caplog, capsys):
    embedexp.run(composed(tmp_path, ["same"]))
    told = [r.getMessage() for r in caplog.records if "taught nothing" in r.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("step 1 taught nothing")
    assert "warning: step 1 taught nothing" in capsys.readouterr().out


def test_two_labels_are_not(tmp_path, caplog):
    embedexp.run(composed(tmp_path, ["one", "another"]), quiet=True)
    assert not [r for r in caplog.records if "taught nothing" in r.getMessage()]
