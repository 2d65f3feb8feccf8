from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import pytest

from embedexp.runs import Run, RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to run commands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[RunDirectory], None]], list[Any]]:
    """Replace the execution of runs; returns the list that the executed configs are added to."""

    def install(body: Callable[[RunDirectory], None]) -> list[Any]:
        executed: list[Any] = []

        def run(config: Any, *, quiet: bool = False) -> Run:
            executed.append(config)
            directory = RunDirectory.of(config)
            directory.freeze(config)
            with directory.owned():
                directory.start(config.stage.name, total_steps=2, seed=config.seed)
                try:
                    body(directory)
                except BaseException as error:
                    directory.fail(error)
                    raise
                if directory.status.state.value == "running":
                    directory.finish()
            return Run(directory)

        module = types.ModuleType("embedexp.stage.execute")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(__import__("sys").modules, "embedexp.stage.execute", module)
        return executed

    return install
