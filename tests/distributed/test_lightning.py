"""Lightning's own strategies train as one process does."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import lightning as L
import pytest
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment

from embedexp.training import strategy
from embedexp.training.loader import loader
from embedexp.training.module import EmbeddingModule

from .cases import Case, assert_equal_gradients, composed, gradients, take
from .table import sized

WORLD, STEPS = 2, 2


MORE = {
    "dense": [],
    "moe": ["routing=moe", "routing.placement=every"],
    "mote": ["routing=mote", "routing.placement=every"],
    "lora": ["backbone.lora={rank: 2, alpha: 4, dropout: 0.0, targets: [all]}"],
}


def case(name):
    more = MORE[name]
    config = composed(
        *more, f"training.steps={STEPS}", "optimizer.max_grad_norm=null", "optimizer.warmup_steps=0"
    )
    return Case(name, config, config.loss, sized(config.batching, 7), True, chunk_tokens=20)


class Keeping(L.Callback):
    """Keeps the gradients of the first step."""

    def on_before_optimizer_step(self, trainer, module, optimizer):
        if trainer.global_step == 0:
            self.gradients = gradients(module.objective)


def train(kind, chosen, rank=0, world=1):
    """Gradients of the first step, the losses, and the weights after the last."""
    objective, keeping, losses = chosen.objective(), Keeping(), []
    module = EmbeddingModule(chosen.config, objective, objective.embedder, lambda *_: 1.0)
    module.train()
    recorder = SimpleNamespace(batch=lambda: losses.append(float(module.latest["loss"])))
    ending = L.pytorch.callbacks.LambdaCallback(on_train_batch_end=lambda *_: recorder.batch())
    trainer = L.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        devices=world,
        strategy=strategy.build(kind, torch.device("cpu"), data_parallel=world),
        plugins=[LightningEnvironment()],
        callbacks=[keeping, ending],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    batches = loader(
        lambda step: Case(**{**vars(chosen), "step": step}).batch(rank, world),
        STEPS,
        lambda: trainer.global_step,
        workers=0,
    )
    with warnings.catch_warnings():  # Lightning advises on loaders, and uses what torch retires
        warnings.simplefilter("ignore")
        trainer.fit(module, batches)
    assert trainer.global_step == STEPS
    weights = {
        name: getattr(p, "full_tensor", lambda p=p: p)().detach().clone()
        for name, p in objective.named_parameters()
    }
    return keeping.gradients, losses, weights


def train_on_ranks(rank, world, kind, chosen):
    """What a rank of several has after training; Lightning finds the process group it is in."""
    return train(kind, chosen, rank, world)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
@pytest.mark.parametrize("name", MORE)
def test_lightnings_strategies_train_as_one_process_does(ranks, name, kind):
    chosen = case(name)
    _, losses, weights = train("single", chosen)
    expected = chosen.objective()
    take(expected, chosen.batch())
    start = {name: p.detach() for name, p in chosen.objective().named_parameters()}
    for found, losses_found, weights_found in ranks(WORLD).call(train_on_ranks, kind, chosen):
        assert_equal_gradients(found, gradients(expected), 4e-6)  # sums in another order
        assert losses_found == pytest.approx(losses, abs=1e-5)
        for name, value in weights_found.items():
            # AdamW's first steps have a size, not a direction, where gradients are tiny.
            assert (value - weights[name]).abs().max() <= 5e-5 * STEPS + 1e-6
    assert losses[1] != pytest.approx(losses[0], abs=1e-4)
    assert max(float((weights[name] - start[name]).abs().max()) for name in weights) > 1e-5
