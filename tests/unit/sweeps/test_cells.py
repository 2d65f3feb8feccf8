"""Labels become cells as each mode says, and what overrides what is fixed."""

from __future__ import annotations

from typing import Any

import pytest

from embedexp.config import UserError
from embedexp.sweeps.cells import ALONE, Scope, cells, only, overrides_of
from embedexp.sweeps.schema import Sweep


def sweep(**content: Any) -> Sweep:
    return Sweep.model_validate({"title": "T", "question": "Q", **content})


AXES = {
    "layers": {"6": ["l=6"], "12": ["l=12"]},
    "rate": {"low": ["r=1"], "mid": ["r=2"], "high": ["r=3"]},
}
TABLE = sweep(rows={"a": ["x=1"], "b": ["x=2"]}, columns={"c": ["y=1"], "d": ["y=2"]}, seeds=[0, 5])


def places(made: Sweep) -> list[tuple[str, str, int]]:
    return [(cell.row, cell.column, cell.seed) for cell in cells(made)]


def test_grid_has_every_row_in_every_column_with_every_seed() -> None:
    assert places(TABLE) == [(r, c, s) for r in "ab" for c in "cd" for s in (0, 5)]


def test_further_axes_of_a_grid_become_rows() -> None:
    made = sweep(rows={"a": []}, axes=AXES)
    assert [cell.row for cell in cells(made)] == [
        f"a · {layers} · {rate}" for layers in ("6", "12") for rate in ("low", "mid", "high")
    ]


def test_one_at_a_time_changes_one_label_of_the_first_ones() -> None:
    made = sweep(mode="one_at_a_time", axes=AXES)
    found = {
        cell.row: [
            o for o in overrides_of(cell, ALONE, made, Scope.of(made, [])) if "seed" not in o
        ]
        for cell in cells(made)
    }
    assert found == {
        "base": ["l=6", "r=1"],
        "layers=12": ["l=12", "r=1"],
        "rate=mid": ["l=6", "r=2"],
        "rate=high": ["l=6", "r=3"],
    }


def test_zip_takes_labels_of_the_same_position() -> None:
    axes = {"x": {"a": ["x=1"], "b": ["x=2"]}, "y": {"c": ["y=1"], "d": ["y=2"]}}
    assert [cell.row for cell in cells(sweep(mode="zip", axes=axes))] == ["a · c", "b · d"]


def test_chain_has_a_row_for_each_stage() -> None:
    made = sweep(mode="chain", stages={"pre": [], "fine": []})
    assert [(cell.row, cell.shown) for cell in cells(made)] == [("pre", "pre"), ("fine", "fine")]


def test_include_and_exclude_choose_cells() -> None:
    made = TABLE.model_copy(update={"exclude": [{"row": "a", "column": "d"}], "seeds": [0]})
    assert places(made) == [("a", "c", 0), ("b", "c", 0), ("b", "d", 0)]
    made = TABLE.model_copy(update={"include": [{"row": "a", "column": "d"}], "seeds": [0]})
    assert places(made) == [("a", "d", 0)]


@pytest.mark.parametrize(
    ("condition", "told"),
    [({"row": "aa"}, "did you mean a?"), ({"colum": "c"}, "axes: row, column")],
)
def test_conditions_name_what_is_there(condition: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told.replace("?", r"\?")):
        cells(TABLE.model_copy(update={"exclude": [condition]}))


def test_only_takes_labels_of_the_same_axis_as_alternatives() -> None:
    found = cells(TABLE)
    assert {(c.row, c.column) for c in only(found, ["a"])} == {("a", "c"), ("a", "d")}
    assert {(c.row, c.column) for c in only(found, ["a", "d"])} == {("a", "d")}
    assert {(c.row, c.column) for c in only(found, ["a", "b", "d"])} == {("a", "d"), ("b", "d")}
    with pytest.raises(UserError, match="no cell has this label"):
        only(found, ["z"])


@pytest.mark.parametrize(
    ("mode", "heading", "left"),
    [("one_at_a_time", "rate=mid", ["rate=mid"]), ("zip", "a · c", ["a · c"])],
)
def test_only_takes_headings_of_rows_that_are_made_of_axes(
    mode: str, heading: str, left: list[str]
) -> None:
    zipped = {"x": {"a": ["x=1"], "b": ["x=2"]}, "y": {"c": ["y=1"], "d": ["y=2"]}}
    found = cells(sweep(mode=mode, axes=zipped if mode == "zip" else AXES))
    assert [cell.row for cell in only(found, [heading])] == left


def test_only_refuses_labels_that_no_cell_has_together() -> None:
    found = cells(TABLE.model_copy(update={"exclude": [{"row": "a", "column": "d"}]}))
    with pytest.raises(UserError, match="no cell has all of these labels"):
        only(found, ["a", "d"])


def test_later_overrides_win_from_base_to_command_line() -> None:
    made = sweep(
        base=["k=base", "u=base"],
        demo={"base": ["k=demo", "v=demo"]},
        rows={"a": {"full": ["k=full"], "demo": ["k=label"]}},
    )
    (cell,) = cells(made)
    full = overrides_of(cell, ALONE, made, Scope.of(made, ["u=typed"]))
    assert full == ["seed=0", "k=full", "u=typed"]
    demo = overrides_of(cell, ALONE, made, Scope.of(made, ["scale=demo"]))
    assert demo == ["u=base", "v=demo", "seed=0", "k=label", "scale=demo"]


def test_labels_set_the_last_stage_unless_they_name_another() -> None:
    made = sweep(
        stages={"pre": ["s=1"], "fine": ["s=2"]},
        rows={"a": {"full": ["x=1"], "stages": {"pre": ["y=1"]}}},
    )
    (cell,) = cells(made)
    scope = Scope.of(made, ["pre:t=3"])
    assert overrides_of(cell, "pre", made, scope) == ["seed=0", "s=1", "y=1", "t=3"]
    assert overrides_of(cell, "fine", made, scope) == ["seed=0", "s=2", "x=1"]


def test_a_label_sets_other_stages_further_at_demo_scale() -> None:
    made = sweep(
        stages={"mine": ["teacher=own"], "train": []},
        rows={"large": {"stages": {"mine": {"full": ["teacher=large", "k=4"], "demo": ["k=2"]}}}},
    )
    cell = cells(made)[0]
    found = {
        scale: set(overrides_of(cell, "mine", made, Scope.of(made, [f"scale={scale}"])))
        for scale in ("full", "demo")
    }
    assert found["full"] == {"teacher=large", "k=4", "seed=0", "scale=full"}
    assert found["demo"] == {"teacher=large", "k=2", "seed=0", "scale=demo"}


@pytest.mark.parametrize(
    ("typed", "told"),
    [("pree:x=1", "did you mean pre"), ("seed=4", "--seeds"), ("pre:seed=4", "--seeds")],
)
def test_typed_overrides_name_stages_and_leave_seeds_alone(typed: str, told: str) -> None:
    made = sweep(mode="chain", stages={"pre": [], "fine": []})
    with pytest.raises(UserError, match=told):
        Scope.of(made, [typed])
