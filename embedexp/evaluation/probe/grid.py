"""Every cell of a probe's grid, one after the other, each kept as soon as it is done."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.files import replacing

from . import fit
from .examples import load
from .fit import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch import Tensor

    from embedexp.config.schema.probe import ProbeStage, ProbeTask
    from embedexp.embedding import Embedder

    from .examples import TaskData

Measures = dict[str, dict[str, float]]
"""By part (split or language), every measure."""


@dataclass(frozen=True)
class Result:
    """What one cell gave.

    `dev` is what is selected on, `test` what is reported where it is another; both are None where
    training diverged. `start` is the cell whose model this one started from.
    """

    cell: Cell
    dev: Measures | None
    test: Measures | None
    seconds: float
    start: str | None = None


def score_of(measures: Measures | None) -> float | None:
    """The mean over parts of the mean over measures: GLUE's score of a task."""
    if not measures:
        return None
    parts = [sum(found.values()) / len(found) for found in measures.values()]
    return sum(parts) / len(parts)


class ResultFile:
    """Lines of JSON, one a cell, added one by one; a line cut short by a crash does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[Cell, Result]:
        """The results so far, in their order."""
        found: dict[Cell, Result] = {}
        if not self.path.exists():
            return found
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                values: dict[str, Any] = json.loads(line)
                cell = Cell(**values.pop("cell"))
                found[cell] = Result(cell, **values)
            except (ValueError, TypeError, KeyError):
                continue
        return found

    def add(self, result: Result) -> None:
        """Keep one more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        before = self.path.read_bytes() if self.path.exists() else b""
        torn = bool(before) and not before.endswith(b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if torn else "") + json.dumps(asdict(result)) + "\n")
            file.flush()
            os.fsync(file.fileno())


def ordered(tasks: Mapping[str, ProbeTask], only: list[str] | None = None) -> list[str]:
    """The names of the tasks to do, those that others start from first."""
    names = [name for name in tasks if only is None or name in only]
    found: list[str] = []
    for name in names:
        chain = [name]
        while (before := tasks[chain[-1]].starts_from) is not None and before not in chain:
            chain.append(before)
        found += [each for each in reversed(chain) if each in names and each not in found]
    return found


def cells(name: str, stage: ProbeStage) -> list[Cell]:
    """The grid of a task."""
    return [
        Cell(name, size, rate, seed)
        for size in stage.batch_sizes
        for rate in stage.learning_rates
        for seed in stage.seeds
    ]


@dataclass
class Grid:
    """The grid of a stage over an embedder.

    `folder` holds the results and the models that tasks start from. `on_step(done, total)` is
    called after every optimizer step, with those of cells done before, `on_result` after every
    cell; either may stop the work, which is then taken up at the first cell that is missing.
    """

    stage: ProbeStage
    embedder: Embedder
    folder: Path
    on_step: Callable[[int, int], None]
    on_result: Callable[[Result], None]

    def run(self) -> dict[Cell, Result]:
        """Do what is missing; every result of the grid.

        Raises:
            UserError: data are missing or wrong, or no model of a task that others start from
                could be trained.
        """
        stage, file = self.stage, ResultFile(self.folder / "cells.jsonl")
        names = ordered(stage.tasks, stage.only)
        data = {
            name: load(name, stage.tasks[name], stage, self.embedder.text_tokenizer)
            for name in names
        }
        results = file.read()
        grid = [cell for name in names for cell in cells(name, stage)]
        steps = {cell: self._steps(cell, data[cell.task]) for cell in grid}
        self._done = sum(steps[cell] for cell in grid if cell in results)
        self._total = sum(steps.values())
        base = {fit.INNER + k: v.clone() for k, v in self.embedder.state_dict().items()}
        for cell in grid:
            if cell not in results:
                before = self._done
                results[cell] = self._one(cell, data[cell.task], base, results)
                file.add(results[cell])
                if self._awaited(cell.task) and results[cell].dev is not None:
                    self._forget(cell.task, results)
                self._done = before + steps[cell]  # also where training stopped early
                self.on_result(results[cell])
        return {cell: results[cell] for cell in grid}

    def _steps(self, cell: Cell, data: TaskData) -> int:
        return fit.steps_of(self.stage, len(data.train), cell.batch_size)

    def _one(
        self, cell: Cell, data: TaskData, base: dict[str, Tensor], results: dict[Cell, Result]
    ) -> Result:
        began, task = time.monotonic(), self.stage.tasks[cell.task]
        state, origin = base, None
        if task.starts_from is not None:
            origin = _best(task.starts_from, results)
            state = self._read(origin)
        model = fit.start(self.embedder, state, self.stage, cell, data.outputs)

        def stepped() -> None:
            self._done += 1
            self.on_step(self._done, self._total)

        named = None if origin is None else str(origin)
        if not fit.train(model, data, task, self.stage, cell, stepped):
            return Result(cell, None, None, time.monotonic() - began, named)
        dev = fit.measure(model, data.dev, task, self.stage)
        test = fit.measure(model, data.tests, task, self.stage) if data.tests else None
        result = Result(cell, dev, test, time.monotonic() - began, named)
        if self._awaited(cell.task) and _best(cell.task, {**results, cell: result}) == cell:
            # Before the result: were it the other way round, a kill could lose the best model.
            self._write(cell, model.state_dict())
        return result

    def _awaited(self, task: str) -> bool:
        return any(other.starts_from == task for other in self.stage.tasks.values())

    def _model(self, cell: Cell) -> Path:
        return self.folder / "start" / f"{str(cell).replace(' ', '_')}.safetensors"

    def _write(self, cell: Cell, state: dict[str, Tensor]) -> None:
        from safetensors.torch import save_file

        path = self._model(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {name: weight.contiguous().cpu() for name, weight in state.items()}
        with replacing(path) as temporary:
            save_file(kept, temporary)

    def _forget(self, task: str, results: Mapping[Cell, Result]) -> None:
        """Delete the models of a task that are not the best: none starts from them."""
        kept = self._model(_best(task, results))
        for path in kept.parent.glob(f"{task}_batch_*.safetensors"):
            if path != kept and kept.exists():
                path.unlink()

    def _read(self, cell: Cell) -> dict[str, Tensor]:
        from safetensors.torch import load_file

        path = self._model(cell)
        if path.exists():
            return load_file(path)
        raise UserError(
            f"the model of {cell}, which others start from, is not there any more",
            where=str(path),
            hint="repeat the run: rerun=true",
        )


def _best(task: str, results: Mapping[Cell, Result]) -> Cell:
    """The cell of a task with the highest dev score, the first of equals.

    Raises:
        UserError: there is none.
    """
    scored = {
        cell: value
        for cell, result in results.items()
        if cell.task == task and (value := score_of(result.dev)) is not None
    }
    if not scored:
        raise UserError(
            f"every training of {task} diverged, and other tasks start from its model",
            hint="lower stage.learning_rates",
        )
    return max(scored, key=lambda cell: scored[cell])
