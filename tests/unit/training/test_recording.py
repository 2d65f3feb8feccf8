"""A line of metrics says how fast and how large, in figures that compare between machines."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from embedexp.batching.layout import Layout
from embedexp.config import compose
from embedexp.training import recording
from embedexp.training.flops import ModelFlops


class Batch:
    """Four examples of eight sequences."""

    layout = Layout.single(np.full(8, 16, np.int64))

    def __len__(self):
        return 4

    def figures(self):
        return {"tokens": 128}


def lines(monkeypatch, peak=None, world=1):
    """What is recorded of three steps, of two seconds each."""
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr(recording.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(recording, "peak_flops", lambda *_, **__: peak)
    config, found, tracked = compose(["backbone=tiny"]), [], []
    recorder = SimpleNamespace(
        metrics=SimpleNamespace(append=found.append, truncate=lambda _: None),
        update=lambda **_: None,
    )
    module = SimpleNamespace(
        config=config,
        device=torch.device("cpu"),
        negatives=None,
        router=None,
        latest={"loss": torch.tensor(1.0), "gradient_norm": torch.tensor(2.0)},
        learning_rate=0.1,
    )
    each = recording.Recording(recorder, None, 1, lambda values, step: tracked.append(values))
    trainer = SimpleNamespace(global_step=0, max_steps=3, world_size=world)
    each.on_train_start(trainer, module)
    for step in range(1, 4):
        trainer.global_step = step
        each.on_train_batch_end(trainer, module, None, Batch(), step - 1)
    return config, found, tracked


def test_throughput_is_of_real_tokens_and_of_the_models_arithmetic(monkeypatch):
    config, found, tracked = lines(monkeypatch)
    operations = ModelFlops.of(config).of_batch(Batch())
    for line in found:
        assert line["samples_per_second"] == 2.0
        assert line["tokens_per_second"] == 64.0
        assert line["model_flops_per_second"] == pytest.approx(operations / 2)
        assert line["memory_gib"] > 0
        assert "mfu" not in line  # nobody knows what a CPU could do
    assert tracked[-1]["model_flops_per_second"] == found[-1]["model_flops_per_second"]


def test_utilisation_is_a_share_of_what_all_devices_could_do(monkeypatch):
    config, found, _ = lines(monkeypatch, peak=1e9, world=4)
    operations = ModelFlops.of(config).of_batch(Batch())
    assert found[-1]["mfu"] == pytest.approx(operations / 2 / 4e9)
