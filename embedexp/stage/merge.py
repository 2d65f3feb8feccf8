"""stage=merge: several trained models become one, which is then scored."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from embedexp import evaluation, merge
from embedexp.config.errors import UserError
from embedexp.config.sign import model_hash
from embedexp.embedding import load
from embedexp.files import write_atomically

from .contrastive import device
from .evaluate import measure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.embedding import Embedder
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.world import World

    from .screen import Screen

RECORD = "merge.json"
"""In the run directory: the option, every input with its hashes, what was decided."""

CANDIDATES = "candidates"
"""In the run directory: scores of the averages that a soup has tried."""


def run(
    config: Config, directory: RunDirectory, stop: StopRequest, screen: Screen, world: World
) -> None:
    """Merge what `merge` names, and leave the model, a record and scores in `directory`."""
    file = directory.path / RECORD
    read = partial(load, device=device(config, world))
    if not (directory.model.is_dir() and file.is_file()):
        directory.update(message="merging")
        candidates = Candidates(config, directory, stop, screen, read)
        record = merge.merge(config.merge, directory.model, score=candidates.score)
        for decision in record.decisions:
            word = "keeps" if decision["kept"] else "leaves out"
            screen.say(f"  {word} {decision['model']}: {decision['score']:.4f}")
        for each in record.inputs:
            if each.experts:
                screen.say(f"  experts of {each.path} renumbered in {len(each.experts)} layers")
        content = json.dumps(record.to_dict(), indent=2, ensure_ascii=False)
        write_atomically(file, content + "\n")
        shutil.rmtree(directory.path / CANDIDATES, ignore_errors=True)
    stop.check()
    measure(config, read(directory.model), directory, (), "after", stop, screen)


def deciding(config: Config) -> Any:
    """The evaluation whose tasks decide: those of `merge.tasks` alone, where it names some."""
    option, tasks = config.evaluation, getattr(config.merge, "tasks", None)
    if not tasks:
        return option
    none: dict[str, Any] = {"benchmarks": []} if option.name == "mteb" else {}
    return option.model_copy(update={"tasks": tasks, **none})


class Candidates:
    """Scores of the models that a soup tries: the mean over its tasks, remembered by content."""

    def __init__(
        self,
        config: Config,
        directory: RunDirectory,
        stop: StopRequest,
        screen: Screen,
        read: Callable[[Path], Embedder],
    ) -> None:
        self.directory, self.stop, self.screen, self.read = directory, stop, screen, read
        self.option = deciding(config)

    def score(self, model: Path) -> float:
        """The mean score of the model in a folder.

        Raises:
            InterruptedRunError: a stop was asked for; finished tasks are kept.
            UserError: its evaluation has no task.
        """

        def on_task(score: evaluation.Score) -> None:
            self.directory.update(message=f"scoring a candidate: {score.task}")
            self.stop.check()

        scores = evaluation.evaluate(
            self.read(model),
            self.option,
            on_task=on_task,
            output=self.directory.path / CANDIDATES / model_hash(model)[:16],
        )
        mean = evaluation.mean(scores)
        if mean is None:
            raise UserError("the evaluation has no task to choose by", where="evaluation")
        self.screen.say(f"  candidate scores {mean:.4f}")
        return mean
