"""Every cell is composed, validated and frozen before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedexp.config import UserError
from embedexp.launch.plan import PlanError, differences, plan
from embedexp.runs import State


def test_each_cell_is_frozen_into_its_own_planned_run(base: list[str]) -> None:
    planned = plan([[*base, "seed=0"], [*base, "seed=1"]])
    assert [cell.run.config.seed for cell in planned.cells] == [0, 1]
    assert {cell.run.status.state for cell in planned.cells} == {State.PLANNED}
    assert [cell.label for cell in planned.cells] == ["seed=0", "seed=1"]


def test_one_wrong_cell_stops_all_before_anything_is_written(
    base: list[str], tmp_path: Path
) -> None:
    cells = [[*base, f"loss.temperature={value}"] for value in ("0.05", "-1", "cold")]
    with pytest.raises(PlanError) as caught:
        plan(cells)
    text = str(caught.value)
    assert "2 of 3 cells are wrong; nothing was started" in text
    assert "[loss.temperature=-1]" in text
    assert "[loss.temperature=cold]" in text
    assert len(text.splitlines()) <= 1 + 2 * 3
    assert not (tmp_path / "runs").exists()


def test_error_that_all_cells_share_is_told_once(base: list[str]) -> None:
    cells = [[*base, "routing=mot", f"seed={seed}"] for seed in range(3)]
    with pytest.raises(UserError) as caught:
        plan(cells)
    assert str(caught.value).count("no option mot") == 1
    assert "and 2 more" in str(caught.value)


def test_same_experiment_twice_is_one_cell(base: list[str]) -> None:
    cells = [[*base, "loss.temperature=0.05"], [*base, "loss.temperature=5e-2"]]
    planned = plan(cells)
    assert len(planned.cells) == 1
    assert planned.positions == (0, 0)
    assert "1 the same as another" in planned.summary()


def test_finished_cell_is_skipped_unless_it_is_to_be_repeated(base: list[str]) -> None:
    (cell,) = plan([base]).cells
    with cell.run.owned():
        cell.run.start("contrastive")
        cell.run.finish()
    again = plan([base])
    assert again.to_run == ()
    assert "1 finished already" in again.summary()
    repeated = plan([[*base, "rerun=true"]])
    assert len(repeated.to_run) == 1
    assert cell.run.status.state is State.PLANNED


def test_cell_that_a_live_process_runs_is_left_to_it(base: list[str]) -> None:
    (cell,) = plan([base]).cells
    with cell.run.owned():
        cell.run.start("contrastive")
        again = plan([base])
    assert [cell.todo for cell in again.cells] == ["elsewhere"]


def test_label_holds_only_what_differs() -> None:
    assert differences([["a=1", "b=x"], ["a=1", "b=y"]]) == ["b=x", "b=y"]
    assert differences([["a=1"]]) == [""]
    assert differences([]) == []
