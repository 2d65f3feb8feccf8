"""One small trained run that several tests look at."""

from __future__ import annotations

from pathlib import Path

import pytest

import embedexp

TINY = [
    "backbone=tiny",
    "tracking=none",
    "training.steps=12",
    "training.checkpoint_every=4",
    "batching.size=16",
    "optimizer.warmup_steps=2",
    "optimizer.learning_rate=1e-3",
    "data.max_examples=400",
    "evaluation.max_queries=40",
    "evaluation.max_documents=100",
    "evaluation.max_examples=100",
    "evaluation.tasks=[WordNetDefinitions,WordNetSimilarity]",
]
"""A run of a few seconds that goes through every room."""


def overrides(folder: Path, *more: str) -> list[str]:
    """The tiny run below `folder`."""
    return [*TINY, f"paths.runs={folder / 'runs'}", f"paths.cache={folder / 'cache'}", *more]


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished tiny run."""
    folder = tmp_path_factory.mktemp("finished")
    return embedexp.run(embedexp.compose(overrides(folder)), quiet=True)
