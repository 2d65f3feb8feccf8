"""A sweep file that can't be meant is refused with its line and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedexp.config import UserError
from embedexp.sweeps.file import find, read
from embedexp.sweeps.schema import Sweep

GOOD = """\
title: T
question: Q?
rows:
  a: [loss.temperature=0.05]
  b: [loss.temperature=0.02]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_may_be_unquoted_whole_numbers(tmp_path: Path) -> None:
    text = GOOD + "columns: {2048: [batching.size=2048]}\n"
    assert list(read(written(tmp_path, text)).columns) == ["2048"]


def test_list_of_overrides_is_short_for_an_entry(tmp_path: Path) -> None:
    sweep = read(written(tmp_path, GOOD))
    assert sweep.rows["a"].full == ["loss.temperature=0.05"]
    assert sweep.rows["a"].overrides(demo=True) == ["loss.temperature=0.05"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + "colums: {}\n", ["no key colums", ":6", "did you mean columns?"]),
        (GOOD + "measures:\n  m: {metrc: x}\n", ["measures.m.metrc", ":7", "did you mean metric?"]),
        ("title: T\nrows: {a: []}\n", ["question is missing"]),
        ("title: T\nqestion: Q\nrows: {a: []}\n", ["no key qestion", ":2", "mean question?"]),
        ("title: a\x07\n", ["no valid YAML"]),
        (GOOD + "mode: gird\n", ["gird is no mode", ":6", "did you mean grid?", "search"]),
        (GOOD + "  a: [x=1]\n", ["'a' is there twice", ":6"]),
        (GOOD + "mode: zip\n", ["mode zip needs axes"]),
        (GOOD + "mode: list\ncolumns: {c: []}\n", ["mode list", "no columns", ":7"]),
        (GOOD + "seeds: [1, 1]\n", ["a seed is named twice"]),
        (GOOD + "seeds: []\n", ["seeds", "at least 1"]),
        (GOOD + "stages: {pre: []}\n  ", []),
        (
            GOOD.replace("b: [loss.temperature=0.02]", "b: {stages: {prtrain: [x=1]}}")
            + "stages: {pretrain: [], finetune: []}\n",
            ["no stage 'prtrain'", ":5", "did you mean pretrain?"],
        ),
        (
            "title: T\nquestion: Q\nmode: zip\naxes: {x: {a: [], b: []}, y: {c: []}}\n",
            ["axes differ in length: x 2, y 1"],
        ),
        (GOOD + "measures: {m: {tasks: [A], types: [B]}}\n", ["tasks and types exclude"]),
        ("- a\n", ["holds no sweep"]),
        ("a: [\n", ["no valid YAML", ":2"]),
    ],
)
def test_mistakes_are_told_in_three_lines_with_their_place(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    path = written(tmp_path, text)
    if not told:
        assert isinstance(read(path), Sweep)
        return
    with pytest.raises(UserError) as error:
        read(path)
    assert len(str(error.value).splitlines()) <= 3
    for part in told:
        assert part in str(error.value)


def test_a_misspelt_file_is_answered_with_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"did you mean sweeps/conan_v2/table12_mask_schedule\.yaml"
    ):
        find("sweeps/conan_v2/table12_mask_shedule.yaml")


def test_the_projects_files_are_found_by_their_name() -> None:
    path = find("nomic_embed_v2/table7_expert_placement")
    assert read(path).paper.table == "Table 7"
