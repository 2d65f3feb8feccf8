"""Every option trains, says what its routers did, and resumes bit for bit."""

from __future__ import annotations

import signal
import warnings

import pytest
import torch
from safetensors.torch import load_file

import embedexp
from embedexp.training.interrupt import InterruptedRunError

from .test_learned_routers import OPTIONS

TINY = [
    "backbone=tiny",
    "tracking=none",
    "evaluation=none",
    "training.steps=6",
    "batching.size=16",
    "optimizer.learning_rate=1e-3",
    "data.max_examples=200",
    "embedding.query_tokens=12",
    "embedding.document_tokens=12",
]


def experiment(folder, *more):
    paths = [f"paths.runs={folder / 'runs'}", f"paths.cache={folder / 'cache'}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return embedexp.compose([*TINY, *paths, *more])


@pytest.mark.parametrize("option", OPTIONS)
def test_it_trains_and_reports_its_routers(option, tmp_path):
    changes = ["routing.z_loss_coefficient=0.001", "training.steps=3"]
    run = embedexp.run(experiment(tmp_path, f"routing={option}", *changes), quiet=True)
    lines = run.metrics()
    experts = 4 if option == "token_level" else 8
    balanced = option in ("moe", "switch", "token_level")
    for line in lines:
        router = line["router"]
        assert router["min_load"] <= 1 / experts <= router["max_load"]
        assert 0 < router["entropy"] <= torch.tensor(experts).log().item() + 1e-6
        assert 0 <= router["dead"] < 1
        assert line["terms"]["z"] > 0
        assert ("balance" in line["terms"]) is balanced
        total = sum(line["terms"].values())
        assert line["loss"] == pytest.approx(total, rel=1e-5)
    assert [("load" in line["router"]) for line in lines] == [False, False, True]
    load = lines[-1]["router"]["load"]
    assert all(sum(layer) == pytest.approx(1, abs=1e-5) for layer in load)
    assert {len(layer) for layer in load} == {experts}
    assert (run.path / "routing.png").stat().st_size > 1000


def test_without_routers_there_is_nothing_to_report(tmp_path):
    run = embedexp.run(experiment(tmp_path, "routing=mote", "training.steps=1"), quiet=True)
    assert "router" not in run.metrics()[0]
    assert not (run.path / "routing.png").exists()


@pytest.mark.parametrize("option", ["loss_free", "switch"])
def test_an_interrupted_run_ends_bit_equal(option, tmp_path, monkeypatch):
    from embedexp.training.saving import Checkpointing

    rate = ["routing.bias_update_rate=0.002"] if option == "loss_free" else []
    changes = [f"routing={option}", *rate, "training.steps=5"]
    whole = embedexp.run(experiment(tmp_path / "a", *changes), quiet=True)
    kept = Checkpointing.on_train_batch_end

    def stopping(self, trainer, *rest):
        if trainer.global_step == 3:
            self.stop.signal = signal.SIGTERM
        kept(self, trainer, *rest)

    config = experiment(tmp_path / "b", *changes)
    monkeypatch.setattr(Checkpointing, "on_train_batch_end", stopping)
    with pytest.raises(InterruptedRunError):
        embedexp.run(config, quiet=True)
    monkeypatch.setattr(Checkpointing, "on_train_batch_end", kept)
    resumed = embedexp.run(config, quiet=True)
    a, b = (load_file(run.model / "model.safetensors") for run in (whole, resumed))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert whole.metrics()[-1]["router"] == resumed.metrics()[-1]["router"]
    if option == "loss_free":  # 5 steps of 0.002, up or down or not at all
        biases = [value for key, value in a.items() if key.endswith("selection_bias")]
        assert biases
        steps = torch.cat(biases) / 0.002
        torch.testing.assert_close(steps, steps.round(), atol=1e-3, rtol=0)
        assert 1 <= steps.abs().max() <= 5.001
