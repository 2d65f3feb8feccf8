"""The benchmark runs, and compares like with like."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_it_runs_and_prints_a_ratio_for_each_layer():
    found = subprocess.run(
        [sys.executable, "benchmarks/routing.py", "--tiny", "--device", "cpu"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    rows = re.findall(r"^ +64  ([12])  (.+?)  +[\d.]+ +([\d.]+)$", found.stdout, re.MULTILINE)
    assert len(rows) == 2 * 7
    assert {float(ratio) for _, name, ratio in rows if name.startswith("dense")} == {1.0}
    assert all(float(ratio) > 0 for *_, ratio in rows)
