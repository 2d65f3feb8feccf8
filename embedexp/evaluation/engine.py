"""Runs mteb tasks over an embedder: offline, quietly, repeatably, one score at a time."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import mteb
import torch

from .encoder import Embedder, Encoder
from .isolation import evaluation_mode, quiet
from .scores import Phase, Score, ScoreFile
from .settings import settings, treatment
from .tasks import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path


def run(
    embedder: Embedder,
    tasks: Sequence[Callable[[], mteb.AbsTask]],
    *,
    sizes: Mapping[str, Any],
    training_tasks: Mapping[str, str] | None = None,
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
) -> list[Score]:
    """Score an embedder on tasks, each built when its turn comes.

    Scores found in `done` or in the folder `output` are reused where weights, settings and task
    are the same by content. `sizes` are only recorded.
    """
    file = ScoreFile(output) if output else None
    known = {score.fingerprint: score for score in (*done, *(file.read(phase) if file else ()))}
    measured = {**settings(embedder), "mteb": mteb.__version__}
    recorded = {**measured, "sizes": dict(sizes)}
    revision = digest(measured, content_hash(embedder))
    encoder = Encoder(
        embedder,
        revision=revision,
        treatment=treatment(embedder),
        training_tasks=training_tasks,
    )
    scores: list[Score] = []
    with quiet(), evaluation_mode(embedder):
        for build in tasks:
            task = build()
            fingerprint = digest(revision, task.metadata.name, task.metadata.revision)
            reused = known.get(fingerprint)
            score = reused or _score(encoder, task, fingerprint)
            scores.append(score)
            # Not for a reused score: the file holds it already, and perhaps later ones.
            if file and not reused:
                file.write(phase, scores, recorded)
            if on_task:
                on_task(score)
    if file:
        file.write(phase, scores, recorded)
    return scores


def _score(encoder: Encoder, task: mteb.AbsTask, fingerprint: str) -> Score:
    start = time.perf_counter()
    results = mteb.evaluate(
        encoder,
        task,
        cache=None,  # mteb's own cache is keyed by names
        co2_tracker=False,
        show_progress_bar=False,
        encode_kwargs={"batch_size": 1024, "show_progress_bar": False},
    )
    entries = results.task_results[0].scores["test"]
    subsets = {entry["hf_subset"]: float(entry["main_score"]) for entry in entries}
    return Score(
        task=task.metadata.name,
        type=task.metadata.type,
        metric=task.metadata.main_score,
        value=sum(subsets.values()) / len(subsets),
        seconds=time.perf_counter() - start,
        fingerprint=fingerprint,
        subsets=subsets if set(subsets) != {"default"} else {},
    )


def content_hash(embedder: Embedder) -> str:
    """SHA-256 of an embedder's weights: names, types, shapes and bytes."""
    result = hashlib.sha256()
    if isinstance(embedder, torch.nn.Module):
        for name, tensor in sorted(embedder.state_dict().items()):
            value = tensor.detach().cpu().contiguous()
            result.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            result.update(value.reshape(-1).view(torch.uint8).numpy())
    return result.hexdigest()
