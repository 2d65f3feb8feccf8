"""The benchmark of masks runs, and its variants compute the same."""

from __future__ import annotations

import re
import runpy
import sys

import pytest

from tests.unit.test_house import ROOT


def test_the_benchmark_runs(monkeypatch, capsys):
    path = ROOT / "benchmarks" / "attention.py"
    monkeypatch.setattr(sys, "argv", [str(path), "--tiny", "--device", "cpu"])
    runpy.run_path(str(path), run_name="__main__")
    rows = re.findall(r"^(\w+.*?, \w+) +[\d.]+ +([\d.]+) ", capsys.readouterr().out, re.M)
    names = {name for name, _ in rows}
    assert {"packed, soft", "padded, soft", "packed, causal", "equal 32, soft"} <= names
    assert all(float(ratio) == pytest.approx(1) for name, ratio in rows if name in (
        "packed, bidirectional", "equal 32, bidirectional"))  # fmt: skip
