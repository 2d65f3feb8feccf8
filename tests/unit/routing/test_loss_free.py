from __future__ import annotations

from math import log

import pytest
import torch
from torch import distributed, multiprocessing

from embedexp import routing
from embedexp.routing import RouterOutput, RouterTotals
from embedexp.routing.experts import MixtureOfExperts
from embedexp.routing.load import RouterLoad
from embedexp.training.synchronise import sum_over_ranks

from .test_moe import told_apart
from .test_upcycling import MIXED, build


def modules(model):
    return [m for m in model.modules() if isinstance(m, MixtureOfExperts)]


def test_the_bias_selects_and_never_weighs():
    model = build("tiny", "loss_free", placement=[0], renormalize="none", router_std=0.3, top_k=1)
    module = told_apart(modules(model)[0])
    rows = torch.randn(30, 128)
    with torch.no_grad():
        module.selection_bias[5] = 2  # more than any probability
    expected = module.router(rows).softmax(-1)[:, 5:6] * module.experts[5](rows)
    torch.testing.assert_close(module(rows), expected, atol=1e-6, rtol=1e-5)


def test_the_bias_moves_by_the_sign_of_the_load_error():
    model = build("tiny", "loss_free", num_experts=4, placement="every", bias_update_rate=0.5)
    loads = [torch.tensor([10, 0, 5, 5]), torch.tensor([1, 2, 3, 4])]
    routing.rebalance(model.config.routing, model, loads)
    found = [m.selection_bias.tolist() for m in modules(model)]
    assert found == [[-0.5, 0.5, 0, 0], [0.5, 0.5, -0.5, -0.5]]
    routing.rebalance(model.config.routing, model, loads)
    assert modules(model)[0].selection_bias.tolist() == [-1, 1, 0, 0]


def test_no_loss_is_added_and_no_gradient_reaches_the_bias():
    model = build("tiny", "loss_free")
    embeddings = model(MIXED)
    assert routing.auxiliary(model.config.routing, embeddings.router) is None
    assert "selection_bias" not in dict(modules(model)[0].named_parameters())
    assert "selection_bias" in modules(model)[0].state_dict()


def test_updates_even_out_a_skewed_load():
    model = build("tiny", "loss_free", placement=[1], top_k=1, bias_update_rate=0.02)
    with torch.no_grad():  # at the start, one expert is everybody's favourite
        modules(model)[0].selection_bias[3] = 0.5
    largest = []
    for _ in range(40):
        loads = model(MIXED).router.loads
        largest.append((loads[0].max() / loads[0].sum()).item())
        routing.rebalance(model.config.routing, model, loads)
    assert largest[0] == 1
    assert sum(largest[-10:]) / 10 < 0.4


def test_several_forwards_make_one_step():
    load, model = RouterLoad(), build("tiny", "moe")
    router = model(MIXED).router
    load.count(router)
    load.count(router)
    step = load.end_step()
    assert torch.equal(step, 2 * torch.stack(router.loads))
    assert load.end_step() is None
    load.count(router)
    load.end_step()
    assert torch.equal(load.total, 3 * torch.stack(router.loads))
    assert sum(load.shares()[0]) == pytest.approx(1)


def rank_of_two(rank, path):
    distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    model = build("tiny", "loss_free", num_experts=3, placement=[0], bias_update_rate=1.0)
    probabilities = [torch.tensor([[0.5, 0.25, 0.25]] * 3), torch.tensor([[0.25, 0.25, 0.5]] * 2)]
    own = RouterOutput(
        probabilities=[probabilities[rank]],
        loads=[torch.tensor([[9, 0, 0], [0, 4, 5]][rank])],  # together 9, 4, 5: the mean is 6
        logits=[torch.zeros(len(probabilities[rank]), 3)],
    )
    totals = RouterTotals.of(own).summed(lambda table: sum_over_ranks(table, 2))
    assert totals.loads.tolist() == [[9, 4, 5]]
    assert totals.rows == 5
    assert totals.probabilities.tolist() == [[2.0, 1.25, 1.75]]
    assert totals.z.tolist() == pytest.approx([5 * log(3) ** 2])
    routing.rebalance(model.config.routing, model, list(totals.loads))
    assert modules(model)[0].selection_bias.tolist() == [-1, 1, 1]
    distributed.destroy_process_group()


def test_processes_count_together(tmp_path):
    multiprocessing.spawn(rank_of_two, args=(str(tmp_path / "store"),), nprocs=2)
