"""Shards in a node with a copy per node have the gradients of one process."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard

from embedexp.training import strategy

from .cases import Case, assert_equal_gradients, composed, gradients, take
from .table import sized

WORLD, COPIES = 4, 2


def case(routing):
    more = [] if routing == "dense" else [f"routing={routing}", "routing.placement=every"]
    config = composed(*more)
    return Case(routing, config, config.loss, sized(config.batching, 7), True, chunk_tokens=20)


def of_rank(rank, world, chosen):
    objective = chosen.objective().double()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("data_parallel",))
    mesh = strategy.mesh_of(mesh, COPIES)
    strategy.shard(objective, objective.embedder, mesh)
    output = take(objective, chosen.batch(rank, world))
    placements = {tuple(parameter.placements) for parameter in objective.parameters()}
    assert placements == {(Replicate(), Shard(0))}
    assert mesh.size(1) == world // COPIES
    return output.loss.numpy(), {k: v.numpy() for k, v in gradients(objective).items()}


@pytest.mark.parametrize("routing", ["dense", "moe"])
def test_hybrid_shards_have_the_gradients_of_one_process(ranks, routing):
    chosen = case(routing)
    objective = chosen.chunked(None).objective().double()
    expected = take(objective, chosen.chunked(None).batch())
    for loss, found in ranks(WORLD).call(of_rank, chosen):
        assert loss == pytest.approx(float(expected.loss), abs=1e-9)
        tensors = {name: torch.from_numpy(value) for name, value in found.items()}
        assert_equal_gradients(tensors, gradients(objective), 1e-9)
