"""A multirun on the screen: a table that fits the terminal, and names taken literally."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from embedexp.launch import screen as module
from embedexp.launch.outcome import Outcome
from embedexp.launch.plan import Cell, Plan
from embedexp.launch.screen import Screen
from embedexp.runs import RunDirectory


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    cells = [
        Cell((f"seed={n}",), f"seed={n}", RunDirectory(tmp_path / f"run-{n}"), "run")
        for n in range(30)
    ]
    return Plan(tuple(cells), tuple(range(30)))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Console:
    console = Console(force_terminal=True, file=io.StringIO(), width=100, height=16)
    monkeypatch.setattr(module, "console", lambda: console)
    return console


def _shown(console: Console, what: object) -> str:
    plain = Console(file=io.StringIO(), width=console.width)
    plain.print(what)
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue()


def test_long_plan_shows_what_runs_and_what_failed_and_counts_the_rest(
    plan: Plan, terminal: Console
) -> None:
    screen = Screen(plan, 2)
    screen.started(plan.cells[7])
    screen.started(plan.cells[8])
    screen.ended(Outcome(plan.cells[7], "failed", "NaN: at step 3"))
    text = _shown(terminal, screen._table())
    assert "seed=8" in text
    assert "starting" in text
    assert "seed=7" in text
    assert "seed=20" not in text
    assert "1 failed, 1 running, 28 waiting" in text
    assert len(text.splitlines()) <= terminal.height


def test_terminal_gets_its_cursor_back(plan: Plan, terminal: Console) -> None:
    with Screen(plan, 1) as screen:
        screen.refresh()
    assert isinstance(terminal.file, io.StringIO)
    assert terminal.file.getvalue().endswith("\x1b[?25h")


def test_label_with_brackets_and_escape_sequences_is_harmless(
    tmp_path: Path, terminal: Console
) -> None:
    cell = Cell((), "loss.tasks=[a,b] \x1b[2J[red]x", RunDirectory(tmp_path / "run-1"), "run")
    text = _shown(terminal, module.final_table([Outcome(cell, "finished")]))
    assert "loss.tasks=[a,b] [red]x" in text
    assert "\x1b" not in text
