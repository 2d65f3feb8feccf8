"""What saves memory or time leaves the gradients as they are."""

from __future__ import annotations

import warnings

import pytest
import torch

from embedexp.training import strategy
from tests.distributed.cases import Case, assert_equal_gradients, composed, gradients, take

MODELS = {
    "dense": [],
    "soft mask": ["mask_schedule=linear"],
    "moe": ["routing=moe", "routing.placement=every", "routing.num_experts=4"],
    "mote": ["routing=mote", "routing.placement=every"],
    "llama": ["backbone=tiny_llama", "backbone.architecture.hidden_size=16"],
}


def case(model, chunk_tokens=None):
    options = [] if model != "llama" else ["backbone.architecture.num_key_value_heads=2"]
    config = composed("batching.size=6", *MODELS[model], *options)
    return Case(model, config, config.loss, config.batching, True, chunk_tokens=chunk_tokens)


def with_dropout(objective):
    for module in objective.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    return objective.train()


def step(chosen, prepare=lambda embedder: None):
    objective = with_dropout(chosen.objective())
    calls = []
    for block in strategy.blocks_of(objective.embedder):
        forward = block.forward

        def counted(*args, forward=forward, **kwargs):
            calls.append(torch.is_grad_enabled())
            return forward(*args, **kwargs)

        block.forward = counted
    prepare(objective.embedder)
    output = take(objective, chosen.batch(), alpha=0.5)
    return output, gradients(objective), calls


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("chunk_tokens", [None, 20], ids=["plain", "cached"])
def test_recomputed_activations_give_the_same_gradients(model, chunk_tokens):
    chosen = case(model, chunk_tokens)
    expected, reference, once = step(chosen)

    def recompute(embedder):
        strategy.economise(embedder, recompute=True, compiled=False)

    output, found, calls = step(chosen, recompute)
    assert torch.equal(output.loss, expected.loss)
    assert_equal_gradients(found, reference, 1e-6)
    assert len(calls) == len(once) + once.count(True)  # each with a graph ran once more


def test_compiled_blocks_give_the_same_gradients():
    chosen = case("dense")
    plain, compiled = (with_dropout(chosen.objective()).eval() for _ in range(2))
    expected = take(plain, chosen.batch())
    names = list(compiled.state_dict())
    with warnings.catch_warnings():  # torch's compiler uses what torch retires
        warnings.simplefilter("ignore")
        strategy.economise(compiled.embedder, recompute=False, compiled=True)
        assert list(compiled.state_dict()) == names
        output = take(compiled, chosen.batch())
    torch.testing.assert_close(output.loss, expected.loss)
    assert_equal_gradients(gradients(compiled), gradients(plain), 1e-5)
