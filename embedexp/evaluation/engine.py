"""Runs mteb tasks over an embedder: quietly, repeatably, one score at a time."""

from __future__ import annotations

import hashlib
import logging
import time
from typing import TYPE_CHECKING, Any

import mteb
import torch
from mteb.abstasks.aggregated_task import AbsTaskAggregate

from embedexp.config.schema.evaluation import Measured
from embedexp.training.interrupt import InterruptedRunError

from .encoder import Embedder, Encoder
from .isolation import evaluation_mode, quiet
from .measurement import Measurement
from .results import failure, score, write_details
from .scores import Failure, Phase, Score, ScoreFile
from .settings import settings
from .subject import Subject
from .tasks import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mteb.results import TaskResult

    from .prompts import Prompts

log = logging.getLogger(__name__)


def run(
    embedder: Embedder | Measurement,
    tasks: Sequence[Callable[[], mteb.AbsTask]],
    *,
    sizes: Mapping[str, Any],
    training_tasks: Mapping[str, str] | None = None,
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
    keep: bool = True,
) -> list[Score]:
    """Score an embedder on tasks, each built when its turn comes.

    Scores found in `done` or in the folder `output` are reused where weights, prompts, settings and
    task are the same by content. `sizes` are only recorded. Without `keep`, vectors are let go
    after each task, those of documents at once.
    """
    asked = embedder if isinstance(embedder, Measurement) else Measurement(embedder)
    kinds = dict(training_tasks or {})
    with quiet(), evaluation_mode(asked.embedder):
        subject = Subject(asked.embedder, asked.option)
        measured = {**settings(subject.embedder), "mteb": mteb.__version__}
        model = digest(measured, content_hash(asked.embedder))
        encoder = Encoder(
            subject,
            revision=digest(model, asked.said(), kinds),
            prompts=asked.prompts,
            training_tasks=kinds,
            keep=keep,
        )
        own = {key: value for key, value in sizes.items() if key not in Measured.model_fields}
        record = _Record(output, phase, {**measured, **asked.said(), "sizes": own}, done)
        for build in tasks:
            task = build()
            name = task.metadata.name
            encoder.prompts, said = _prompts(asked.prompts, task)
            fingerprint = digest(model, said, kinds.get(name), _identity(task))
            found = record.known.get(fingerprint)
            if found is not None:
                record.scores.append(found)  # the file holds it already, and perhaps later ones
            else:
                encoder.on_texts = asked.teller(name)
                start = time.perf_counter()
                try:
                    result = _measure(encoder, task)
                    found = score(task, result, time.perf_counter() - start, fingerprint)
                except InterruptedRunError:
                    raise
                except Exception as error:
                    if asked.on_failure is None:
                        raise
                    log.exception("%s could not be measured", name)
                    record.fail(failure(task, error))
                    asked.on_failure(record.failures[-1])
                    continue
                finally:
                    if not keep:
                        encoder.forget()
                record.add(found, result)
            if on_task:
                on_task(found)
    record.close()
    return record.scores


class _Record:
    """What was measured so far, and the folder that keeps it."""

    def __init__(
        self, output: Path | None, phase: Phase, settings: Mapping[str, Any], done: Sequence[Score]
    ) -> None:
        self.output, self.phase, self.settings = output, phase, settings
        self.file = ScoreFile(output) if output else None
        self.filed = self.file.read(phase) if self.file else []
        self.known = {found.fingerprint: found for found in (*done, *self.filed)}
        self.scores: list[Score] = []
        self.failures: list[Failure] = []

    def add(self, found: Score, result: TaskResult) -> None:
        """Keep a new score at once, with mteb's own result."""
        self.scores.append(found)
        if self.output:
            write_details(result, self.output, self.phase)
        self._write()

    def fail(self, failure: Failure) -> None:
        """Keep a failure at once."""
        self.failures.append(failure)
        self._write()

    def _write(self) -> None:
        """Write what there is, and what an earlier run measured of the tasks still to come."""
        reached = {found.task for found in self.scores} | {each.task for each in self.failures}
        ahead = [found for found in self.filed if found.task not in reached]
        if self.file:
            self.file.write(self.phase, [*self.scores, *ahead], self.settings, self.failures)

    def close(self) -> None:
        """Write what there is, and nothing else."""
        self.filed = []
        self._write()


def _identity(task: mteb.AbsTask) -> list[Any]:
    """What is measured: the task, its data, and which splits and subsets of them."""
    if isinstance(task, AbsTaskAggregate):
        parts = [_identity(part) for part in task.metadata.tasks]
        return [task.metadata.name, task.metadata.revision, parts]
    subsets = sorted(task.hf_subsets)
    return [task.metadata.name, task.metadata.revision, sorted(task.eval_splits), subsets]


def _prompts(prompts: Prompts, task: mteb.AbsTask) -> tuple[Prompts, list[Any]]:
    """The prompts for a task, and those of its sides, or of the sides of all its parts."""
    if not isinstance(task, AbsTaskAggregate):
        return prompts, prompts.all_of(task.metadata)
    parts = [part.metadata for part in task.metadata.tasks]
    inside = prompts.within(task.metadata.name, [part.name for part in parts])
    return inside, [inside.all_of(part) for part in parts]


def _measure(encoder: Encoder, task: mteb.AbsTask) -> TaskResult:
    """The result by mteb of a task; of one made of others, mteb's combination of theirs."""
    if isinstance(task, AbsTaskAggregate):
        return task.combine_task_results([_measure(encoder, part) for part in task.metadata.tasks])
    loaded = task.data_loaded
    if not loaded:
        # Not left to `evaluate`, which takes data that isn't found for a task without any.
        task.load_data()
    try:
        results = mteb.evaluate(
            encoder,
            task,
            cache=None,  # ours is keyed by content; mteb's by the names of model and revision
            co2_tracker=False,
            show_progress_bar=False,
            encode_kwargs={"batch_size": 1024, "show_progress_bar": False},
        )
    finally:
        if not loaded:
            task.unload_data()
    (found,) = results.task_results
    return found


def content_hash(embedder: Embedder) -> str:
    """SHA-256 of an embedder's weights: names, types, shapes and bytes."""
    result = hashlib.sha256()
    if isinstance(embedder, torch.nn.Module):
        for name, tensor in sorted(embedder.state_dict().items()):
            value = tensor.detach().cpu().contiguous()
            result.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            result.update(value.reshape(-1).view(torch.uint8).numpy())
    return result.hexdigest()
