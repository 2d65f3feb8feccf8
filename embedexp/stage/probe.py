"""stage=probe: fine-tune the backbone on labelled tasks over a grid, and tell what was best."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.config.schema.embedding import Cls, Prompts
from embedexp.embedding import build_embedder
from embedexp.embedding.model_config import ModelConfig
from embedexp.evaluation import Score, ScoreFile
from embedexp.evaluation.probe import summary
from embedexp.evaluation.probe.grid import Grid, score_of
from embedexp.runs.text import duration

from .contrastive import device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedexp.config import Config
    from embedexp.evaluation.probe.fit import Cell
    from embedexp.evaluation.probe.grid import Result
    from embedexp.evaluation.probe.summary import Summary
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen

FOLDER = "probe"
LINE_SECONDS = 15.0


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Train every cell that is missing; leave results, a table and scores in `directory`.

    A cell is kept as soon as it is done: the same command goes on after a stop.
    """
    stage = config.stage
    assert stage.name == "probe"
    embedder = build_embedder(_model(config)).to(device(config, world))
    told = _Telling(directory, stop, screen)
    folder = directory.path / FOLDER
    results = Grid(stage, embedder, folder, told.on_step, told.on_result).run()
    found = summary.summarise(results)
    if not found:
        raise UserError(
            "every training diverged: the loss was no number",
            hint="lower stage.learning_rates, or set stage.precision=float32",
        )
    summary.write(found, stage, folder)
    ScoreFile(directory.evaluation).write(
        "after", [_score(each, config.signature, results) for each in found], {}
    )
    screen.say()
    for each in found:
        point = f"batch {each.batch_size}, learning rate {each.learning_rate:g}"
        screen.say(f"  {each.task:<20} {summary.figure(each.mean, each.deviation)}  ({point})")
        screen.say(f"  {'':<20} {summary.details(each)}")
    screen.say(f"  {summary.note(stage)}")
    screen.say(f"table    {folder / 'table.md'}")


def _model(config: Config) -> ModelConfig:
    """The model's options, with an embedding that only says how long texts may be."""
    assert config.stage.name == "probe"
    longest = config.stage.max_tokens
    embedding = Cls(
        name="cls",
        layers="last",
        projection=getattr(config.embedding, "projection", None),  # what the source may end in
        normalize=False,
        width=None,
        query_tokens=longest,
        document_tokens=longest,
        prompts=Prompts(search_query="", search_document="", classification="", clustering=""),
    )
    return ModelConfig.of(config).model_copy(update={"embedding": embedding})


def _score(found: Summary, signature: str, results: Mapping[Cell, Result]) -> Score:
    metrics = list(next(iter(found.measures.values())))
    parts = {
        part: sum(value for value, _ in measures.values()) / len(measures)
        for part, measures in found.measures.items()
    }
    seconds = sum(each.seconds for cell, each in results.items() if cell.task == found.task)
    return Score(
        task=found.task,
        type="Probe",
        metric=metrics[0] if len(metrics) == 1 else "mean of " + " and ".join(metrics),
        value=found.mean,
        seconds=seconds,
        fingerprint=signature,
        subsets=parts if len(parts) > 1 else {},
    )


class _Telling:
    """Says how far the grid is, and stops it when asked to."""

    def __init__(self, directory: RunDirectory, stop: StopRequest, screen: Screen) -> None:
        self.directory, self.stop, self.screen = directory, stop, screen
        self._start = self._shown = time.monotonic()
        self._first: int | None = None

    def on_step(self, done: int, total: int) -> None:
        """After an optimizer step."""
        now = time.monotonic()
        if self._first is None:
            self._first, self._start, self._shown = done - 1, now, now
        rate = (done - self._first) / max(now - self._start, 1e-9)
        left = (total - done) / max(rate, 1e-9)
        self.directory.update(
            step=done, total_steps=total, eta_seconds=left, message="training probes"
        )
        if now - self._shown >= LINE_SECONDS:
            self._shown = now
            self.screen.say(f"  step {done:,} of {total:,} ({rate:.1f}/s, {duration(left)} left)")
        self.stop.check()

    def on_result(self, result: Result) -> None:
        """After a cell."""
        score = score_of(result.dev)
        value = "diverged" if score is None else f"dev {100 * score:.2f}"
        self.screen.say(f"  {result.cell}: {value} ({result.seconds:.1f} s)")
        self.stop.check()
