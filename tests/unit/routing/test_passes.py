"""Each forward pass has its own record, whatever the order of forwards and backwards."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from embedexp.routing.context import RoutingContext

from .test_upcycling import CLUSTERING, DOCUMENT, MIXED, QUERY, batch, build


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("option", ["moe", "mote"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_two_forwards_before_one_backward(option, checkpointing):
    model = build("tiny", option, placement="every").train()
    if checkpointing:
        model.model.activation_checkpointing_enable()
    first, second = batch([QUERY, DOCUMENT, QUERY]), batch([CLUSTERING] * 4, seed=1)

    def loss(tokens):
        embeddings = model(tokens)
        value = embeddings.vectors.cos().sum()
        if embeddings.router is not None:
            value = value + sum(p.square().mean() for p in embeddings.router.probabilities)
        return value

    apart = [gradients(model, loss(tokens)) for tokens in (first, second)]
    together = gradients(model, loss(first) + loss(second))
    for a, b, both in zip(*apart, together, strict=True):
        torch.testing.assert_close(both, a + b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_router_reports_once_per_layer(checkpointing):
    model = build("tiny", "moe", placement="every").train()
    if checkpointing:
        model.model.activation_checkpointing_enable()
    router = model(MIXED).router
    tokens = MIXED.input_ids.numel()
    assert [tuple(p.shape) for p in router.probabilities] == [(tokens, 8)] * 2
    assert [tuple(a.shape) for a in router.assignments] == [(tokens, 2)] * 2
    sum(p.square().sum() for p in router.probabilities).backward()
    assert len(router.probabilities) == 2
    assert all(
        block.intermediate.router.weight.grad.norm() > 0 for block in model.model.encoder.layer
    )


def test_nothing_is_kept_after_a_forward():
    model = build("tiny", "moe").eval()
    kept = weakref.ref(model(MIXED).router.probabilities[0])
    gc.collect()
    assert kept() is None


class Failing(torch.nn.Module):
    def forward(self, hidden, **kwargs):
        raise ZeroDivisionError


def test_nothing_is_kept_after_a_failure():
    context, block = RoutingContext(), Failing()
    context.watch(block)
    with pytest.raises(ZeroDivisionError):
        block(torch.ones(1), routing_pass=object())
    assert context.current is None


def test_a_task_routed_model_without_tasks_says_so():
    model = build("tiny", "mote").model
    with pytest.raises(RuntimeError, match="needs to know the tasks"):
        model(input_ids=MIXED.input_ids[None])
