"""Gradients do not depend on the number of ranks, on how they are spread, or on chunks."""

from __future__ import annotations

import pytest

from embedexp.training.chunks import rounds

from . import worker
from .cases import options
from .table import FEW, LANGUAGE_MODELS, runs

TABLE = runs()


@pytest.mark.parametrize("name", TABLE)
def test_ranks_have_the_gradient_of_one_process_and_meet_once(ranks, name):
    case, way = TABLE[name].case, TABLE[name].way
    counts = worker.compare(ranks, case, way)
    learned = sum(1 for _ in case.objective().loss.parameters())
    learned += getattr(case.config.embedding, "projection", None) is not None
    routed = "num_experts" in type(case.config.routing).model_fields
    assert counts.pop("allgather_") == 1  # the vectors
    assert counts.pop("allreduce_", 0) == (way.kind == "ddp") + routed  # what routers counted
    reductions = sum(n for name, n in counts.items() if "reduce" in name)
    assert reductions == (3 + learned if way.kind == "fsdp" else 0)  # two blocks, and the rest


def test_chunks_and_shares_are_unequal():
    for run in TABLE.values():
        if run.way.cached:
            layout = run.case.batch(0, run.way.world).layout
            assert rounds(layout, worker.CHUNK) > 1, run
    empty = {run.way for run in TABLE.values() if "fewer" in run.case.name and run.way.world > FEW}
    assert empty == {way for way in worker.WAYS if way.world > FEW}


def test_every_loss_meets_every_other_option():
    losses = set(options("loss")) - set(LANGUAGE_MODELS)
    assert {run.case.loss.name for run in TABLE.values()} == losses
    for loss in losses:
        own = [run for run in TABLE.values() if run.case.loss.name == loss]
        assert {run.case.batching.name for run in own} == set(options("batching"))
        ways = [run.way for run in own]
        for field in ("kind", "cached", "world"):
            assert {getattr(way, field) for way in ways} == {
                getattr(way, field) for way in worker.WAYS
            }
