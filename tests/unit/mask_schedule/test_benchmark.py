"""The benchmark of masks runs, and its variants compute the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.unit.test_house import ROOT


def test_the_benchmark_runs():
    found = subprocess.run(
        [sys.executable, "benchmarks/attention.py", "--tiny", "--device", "cpu"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    rows = re.findall(r"^(\w+.*?, \w+) +[\d.]+ +([\d.]+) ", found.stdout, re.MULTILINE)
    names = {name for name, _ in rows}
    assert {"packed, soft", "padded, soft", "packed, causal", "equal 32, soft"} <= names
    own = {"packed, bidirectional", "equal 32, bidirectional"}
    assert {float(ratio) for name, ratio in rows if name in own} == {1.0}
