"""Commands about sweeps name the whole command that helps, and leave whole files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedexp.cli import main
from tests.unit.sweeps.report_help import finish_all, small

if TYPE_CHECKING:
    from pathlib import Path

SWEEP = """
title: T
question: Q
base: [backbone=tiny, tracking=none]
rows: {a: [loss.temperature=0.05], b: [loss.temperature=0.02]}
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A sweep file and the folder of its runs."""
    file = tmp_path / "mine.yaml"
    file.write_text(SWEEP)
    return [str(file), "--runs", str(tmp_path / "runs")]


def test_the_command_that_is_offered_finds_the_same_options_and_cells(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    assert main(["table", *words, "--only", "a", "--config-dir", str(own)]) == 2
    told = capsys.readouterr().err
    assert f"--only a --runs {tmp_path / 'runs'} --config-dir {own}" in told


def test_a_table_takes_the_place_of_the_old_file_whole(words: list[str], tmp_path: Path) -> None:
    finish_all(small(tmp_path), everything=False)
    target, same = tmp_path / "table.csv", tmp_path / "same.csv"
    target.write_text("old")
    same.hardlink_to(target)
    assert main(["table", *words, "--to", str(target)]) == 0
    assert target.read_text().startswith("row,")
    # Who had the old file open still reads it, and nothing of the new one.
    assert same.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {
        "mine.yaml", "runs", "table.csv", "same.csv",
    }  # fmt: skip
