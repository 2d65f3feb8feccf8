from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from embedexp.evaluation import Score, ScoreFile, mean, table

if TYPE_CHECKING:
    from pathlib import Path


def score(task: str, value: float) -> Score:
    return Score(task, "Retrieval", "ndcg_at_10", value, 1.5, f"{task}-hash", {"de-en": value})


def shown(before: list[Score], after: list[Score]) -> list[list[str]]:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(table(before, after))
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_score_file_gives_back_what_was_written(tmp_path: Path) -> None:
    file = ScoreFile(tmp_path / "evaluation")
    assert file.read("before") == []
    file.write("before", [score("a", 0.25)], {"mteb": "2"})
    file.write("after", [score("a", 0.5), score("b", 0.75)], {"mteb": "2"})
    again = ScoreFile(tmp_path / "evaluation")
    assert again.read("before") == [score("a", 0.25)]
    assert again.read("after") == [score("a", 0.5), score("b", 0.75)]
    assert again.settings == {"mteb": "2"}
    assert set(json.loads(again.path.read_text())) == {"before", "after", "settings"}
    assert [path.name for path in again.path.parent.iterdir()] == ["scores.json"]


def test_interrupted_write_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ScoreFile(tmp_path)
    file.write("after", [score("a", 0.5)], {})
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        file.write("after", [score("a", 0.5), score("b", 0.75)], {})
    assert file.read("after") == [score("a", 0.5)]


def test_table_compares_before_and_after() -> None:
    lines = shown([score("one", 0.25), score("two", 0.5)], [score("one", 0.5), score("two", 0.25)])
    assert ["one", "Retrieval", "nDCG@10", "0.2500", "0.5000", "+0.2500"] in lines
    assert ["two", "Retrieval", "nDCG@10", "0.5000", "0.2500", "-0.2500"] in lines
    assert ["mean", "2", "tasks", "0.3750", "0.3750", "+0.0000"] in lines


def test_table_mean_uses_only_tasks_that_both_sides_have() -> None:
    both, extra = [score("one", 0.25), score("two", 0.25)], score("three", 1.0)
    lines = shown(both, [*both, extra])
    assert ["mean", "2", "tasks", "0.2500", "0.2500", "+0.0000"] in lines
    assert ["three", "Retrieval", "nDCG@10", "-", "1.0000", "-"] in lines


def test_table_of_one_side_and_of_nothing() -> None:
    assert ["one", "Retrieval", "nDCG@10", "0.2500"] in shown([], [score("one", 0.25)])
    assert all("mean" not in line for line in shown([], []))


def test_table_shows_names_as_they_are_and_in_full_on_80_columns() -> None:
    name = "[red]WordNetDefs"
    lines = shown([score(name, 0.25)], [score(name, 0.25)])
    assert any(line[0] == name for line in lines)


def test_mean_over_tasks() -> None:
    assert mean([score("a", 0.25), score("b", 0.75)]) == 0.5
    assert mean([]) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '{"before": [', '{"before": [{"task": "a"}], "after": []}']
)
def test_damaged_file_counts_as_empty_and_is_written_anew(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = ScoreFile(tmp_path)
    file.path.write_text(text)
    assert file.read("before") == file.read("after") == []
    assert "can't be read" in caplog.text
    file.write("after", [score("a", 0.5)], {})
    assert file.read("after") == [score("a", 0.5)]
