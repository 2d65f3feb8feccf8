"""One small trained run that several tests look at."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import embedexp
from embedexp.training.interrupt import InterruptedRunError
from embedexp.training.saving import Checkpointing

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


@pytest.fixture
def interrupted(monkeypatch):
    """A function that runs a config until a signal comes in the given step."""

    def run(config, step):
        kept = Checkpointing.on_train_batch_end

        def stopping(self, trainer, *rest):
            if trainer.global_step == step:
                self.stop.signal = signal.SIGTERM
            kept(self, trainer, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(Checkpointing, "on_train_batch_end", stopping)
            with pytest.raises(InterruptedRunError):
                embedexp.run(config, quiet=True)

    return run


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished tiny run."""
    folder = tmp_path_factory.mktemp("finished")
    return embedexp.run(embedexp.compose(overrides(folder)), quiet=True)
