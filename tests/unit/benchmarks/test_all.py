"""One command runs all benchmarks and says honestly what came of them."""

from __future__ import annotations

import json
import sys

import pytest

from .conftest import FOLDER

HELPERS = {
    "__main__.py",
    "gpu_attention.py",
    "gpu_bench.py",
    "gpu_models.py",
    "made_up.py",
    "packed_loop.py",
    "timing.py",
}


@pytest.fixture
def every(script):
    return script("__main__")


def row(**changed):
    facts = {"name": "a step", "peer": "theirs", "values": [1.2, 1.0, 1.4], "unit": "x"}
    facts |= {"most": 1.15, "least": None, "median": 1.2, "low": 1.0, "high": 1.4, "met": False}
    return facts | changed


def test_no_script_is_forgotten(every):
    named = {benchmark.script for benchmark in every.BENCHMARKS.values()} | set(every.APART)
    assert named == {path.name for path in FOLDER.glob("*.py")} - HELPERS


def test_the_table_shows_spread_target_and_what_was_missed_or_failed(every):
    rows = [row(), row(values=[30.0], unit="MiB", peer="", most=None, met=None, median=30.0)]
    results = {"cosent": {"load": 0.25, "date": "2026-11-30", "rows": rows}}
    lines = every.table(results, ["mining"], "a machine", tiny=False).splitlines()
    assert lines[2] == "| cosent: a step | theirs | 1.2x | 1 to 1.4 | ≤ 1.15x | **missed** |"
    assert lines[3] == "| cosent: a step | - | 30 MiB | once | - |  |"
    assert lines[-2:] == [
        "Measured on a machine, load 0.2 to 0.2 before each, 2026-11-30.",
        "Without figures, since they failed: mining.",
    ]
    short = every.table(results, [], "a machine", tiny=False, short=True).splitlines()
    assert short[2] == lines[2]
    assert short[3] == ""


def test_a_target_is_met_by_the_median(script):
    timing = script("timing")
    assert timing.Row("a", "b", [1.0, 1.1, 9.0], most=1.15).facts()["met"] is True
    assert timing.Row("a", "b", [1.0, 1.2, 9.0], most=1.15).facts()["met"] is False
    assert timing.Row("a", "b", [1.2, 1.3, 1.9], least=1.3).facts()["met"] is True
    assert timing.Row("a", "b", [1.2, 1.2, 1.9], least=1.3).facts()["met"] is False
    assert timing.Row("a", "b", [1.2]).facts()["met"] is None


def test_turns_end_when_the_time_is_over_but_not_before_three(script, monkeypatch):
    timing = script("timing")
    calls = []
    variants = {"a": timing.Variant(lambda: calls.append(1), "a")}
    taken = timing.compare(variants, "cpu", 1000, seconds=0.0)["a"]
    assert len(taken.ratios) == timing.FEWEST_TURNS
    assert len(calls) == timing.FEWEST_TURNS + timing.WARM_UPS
    assert set(taken.ratios) == {1.0}


def test_one_that_fails_is_named_and_the_others_go_on(every, tmp_path, monkeypatch, capsys):
    good = "import sys, json, pathlib as p; i = sys.argv.index('--json');"
    good += f"p.Path(sys.argv[i + 1]).write_text({json.dumps(json.dumps([row()]))})"
    (tmp_path / "good.py").write_text(good)
    (tmp_path / "bad.py").write_text("raise SystemExit('no such thing')")
    own = {"bad": every.Benchmark("bad.py"), "good": every.Benchmark("good.py", (), True)}
    monkeypatch.setattr(every, "BENCHMARKS", own)
    monkeypatch.setattr(every, "HERE", tmp_path)
    page, start = tmp_path / "page.md", tmp_path / "start.md"
    page.write_text(f"before\n{every.BEGIN}\nold\n{every.END}\nafter\n")
    start.write_text(f"{every.BEGIN_SHORT}\n{every.END}\n")
    to = tmp_path / "results"
    words = ["benchmarks", "--to", str(to), "--into", str(page), str(start)]
    monkeypatch.setattr(sys, "argv", words)
    assert every.main() == 1
    assert "no such thing" in capsys.readouterr().out
    assert json.loads((to / "results.json").read_text())["failed"] == ["bad"]
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{every.END}\nafter\n")
    assert "| good: a step |" in text
    assert "old" not in text
    assert "| good: a step |" in start.read_text()
    # What was measured before stays when only one is measured again.
    monkeypatch.setattr(sys, "argv", [*words, "--only", "bad"])
    assert every.main() == 1
    assert "| good: a step |" in page.read_text()
    monkeypatch.setitem(own, "good", every.Benchmark("good.py", ("--texts", "9")))
    assert every.main() == 1
    assert "| good: a step |" not in page.read_text()


def test_a_page_without_a_place_for_the_table_is_refused_before_anything_runs(
    every, tmp_path, monkeypatch
):
    page = tmp_path / "page.md"
    page.write_text("nothing here\n")
    monkeypatch.setattr(every, "run", lambda *_, **__: pytest.fail("it ran"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--into", str(page)])
    with pytest.raises(SystemExit, match="has no lines"):
        every.main()
