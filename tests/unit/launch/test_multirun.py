"""The record of a multirun: found by its id, the same for the same cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedexp.config import UserError
from embedexp.launch.multirun import Multirun, MultirunCell, find, multirun_id, write


def record(identity: str) -> Multirun:
    cells = (MultirunCell("a-1234567890", "seed=0", ("seed=0", "routing=moe")),)
    return Multirun(identity, cells, "slurm", {"time": 5}, "2030-01-01T00:00:00.000+00:00")


def test_same_cells_in_any_order_are_the_same_multirun() -> None:
    assert multirun_id("a", ["x", "y"]) == multirun_id("a", ["y", "x", "y"])
    assert multirun_id("a", ["x", "y"]) != multirun_id("a", ["x"])


def test_record_reads_back_and_is_found_by_the_start_of_its_id(tmp_path: Path) -> None:
    path = write(record("a-123456"), tmp_path)
    assert find("a-123456", tmp_path) == find("a-12", tmp_path) == record("a-123456")
    assert find(str(path), tmp_path) == record("a-123456")
    assert find("b", tmp_path) is None
    assert record("a").runs(tmp_path) == [tmp_path / "a-1234567890"]


def test_start_that_several_share_is_refused_unless_it_is_one_of_them(tmp_path: Path) -> None:
    write(record("a-1"), tmp_path)
    write(record("a-12"), tmp_path)
    found = find("a-1", tmp_path)
    assert found is not None
    assert found.id == "a-1"
    with pytest.raises(UserError, match="means 2 multiruns"):
        find("a-", tmp_path)


def test_damaged_record_is_told(tmp_path: Path) -> None:
    write(record("a-1"), tmp_path).write_text("{")
    with pytest.raises(UserError, match="no record of a multirun"):
        find("a-1", tmp_path)
