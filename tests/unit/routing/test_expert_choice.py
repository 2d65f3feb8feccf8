from __future__ import annotations

from itertools import pairwise
from math import ceil

import pytest
import torch

from embedexp.batching.token_batch import TokenBatch
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.routing.context import RoutingPass
from embedexp.routing.expert_choice import ChoosingExperts, places

from .test_moe import told_apart
from .test_upcycling import MIXED, build


def choosing(**changes):
    model = build("tiny", "expert_choice", placement=[1], router_std=0.3, **changes)
    return told_apart(next(m for m in model.modules() if isinstance(m, ChoosingExperts)))


@pytest.mark.parametrize("renormalize", ["none", "chosen"])
@pytest.mark.parametrize("capacity", [0.5, 2.0, 8.0])
def test_a_loop_over_the_definition(renormalize, capacity):
    module = choosing(renormalize=renormalize, capacity=capacity)
    lengths = [5, 1, 13, 8]
    rows = torch.randn(sum(lengths), 128, requires_grad=True)
    weights = module.router.weight
    output = torch.zeros(len(rows), 128, dtype=torch.float64)
    taken = torch.zeros(len(rows), 8, dtype=torch.bool)
    p = (rows.double() @ weights.double().T).softmax(-1)
    start = 0
    for length in lengths:
        count = min(length, ceil(capacity * length / 8))
        for e in range(8):
            best = sorted(range(length), key=lambda i: -p[start + i, e].item())[:count]
            taken[[start + i for i in best], e] = True
        start += length
    for i, row in enumerate(rows):
        total = p[i][taken[i]].sum() if renormalize == "chosen" else 1.0
        for e in taken[i].nonzero().flatten().tolist():
            output[i] = output[i] + p[i, e] / total * module.experts[e](row).double()

    routing_pass = RoutingPass(lengths=lengths)
    module.context.current = routing_pass
    found = module(rows[None])[0]
    module.context.current = None
    torch.testing.assert_close(found.double(), output, atol=1e-5, rtol=1e-4)
    recorded = routing_pass.output()
    assert torch.equal(recorded.assignments[0] >= 0, taken)
    assert torch.equal(recorded.loads[0], taken.sum(0))
    parameters = [rows, *module.parameters()]
    grad = torch.randn(len(rows), 128)
    ours = torch.autograd.grad(found, parameters, grad, allow_unused=True)
    theirs = torch.autograd.grad(output, parameters, grad.double(), allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        if b is not None:
            torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-3)


def test_a_text_does_not_depend_on_its_batch():
    model = build("tiny", "expert_choice", placement="every", router_std=0.3)
    ids, ends = MIXED.input_ids.tolist(), MIXED.cu_seqlens.tolist()
    together = model(MIXED).vectors
    for i, (start, end) in enumerate(pairwise(ends)):
        alone = model(TokenBatch.pack([ids[start:end]], [0], [0])).vectors[0]
        torch.testing.assert_close(alone, together[i], atol=1e-6, rtol=0)


def test_all_experts_for_all_tokens_is_the_dense_model():
    changes = {"capacity": 8.0, "placement": "every"}
    model = build("tiny", "expert_choice", **changes)  # probabilities sum to 1
    dense = build("tiny")(MIXED).vectors
    torch.testing.assert_close(model(MIXED).vectors, dense, atol=1e-5, rtol=0)


def test_places_are_the_share_rounded_up():
    assert [places(n, 2.0, 8) for n in (1, 4, 5, 8, 100)] == [1, 1, 2, 2, 25]
    assert places(3, 8.0, 8) == 3


def test_what_it_cannot_do_is_said():
    options = ["routing=expert_choice", "backbone=tiny_llama", "mask_schedule=causal"]
    assert "never quite causal" in " ".join(compose(options).warnings)
    with pytest.raises(UserError, match="is more than routing"):
        compose(["routing=expert_choice", "routing.capacity=9.0"])
