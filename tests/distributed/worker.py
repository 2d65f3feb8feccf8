"""What each rank does: the gradients of a case, by a strategy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from embedexp.training import strategy

from .cases import assert_equal_gradients, gradients, take

CHUNK = 20  # tokens: several chunks on each rank, and not as many on all
WORLDS = (2, 4)
KINDS = ("ddp", "fsdp")
EXACT = 1e-9


@dataclass(frozen=True)
class Way:
    """How a step's gradient is taken: by which strategy, at once or in chunks, on how many ranks.

    Its string is its name in tests.
    """

    kind: str
    cached: bool
    world: int

    def __str__(self):
        return f"{self.kind} {'cached' if self.cached else 'plain'} on {self.world}"

    def of(self, case):
        """The case, in chunks or not."""
        return case.chunked(CHUNK if self.cached else None)


WAYS = [Way(kind, cached, world) for kind in KINDS for cached in (False, True) for world in WORLDS]


class Collectives(TorchDispatchMode):
    """Counts collective operations by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "c10d" in function.namespace:
            self.counts[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Taken:
    """What a step left: its loss, the terms and the gradients; and its collective operations.

    Of gradients in shards, a rank has its own rows.
    """

    loss: Any
    terms: dict
    gradients: dict
    collectives: dict


def of_ranks(rank, world, case, kind):
    """A step of one rank among `world`."""
    objective = case.objective().double()
    model = objective
    if kind == "ddp":
        model = DistributedDataParallel(objective)
    else:
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("data_parallel",))
        strategy.shard(objective, objective.embedder, mesh)
    with Collectives() as collectives:
        output = take(objective, case.batch(rank, world), model=model)
    return _taken(output, objective, collectives.counts)


def alone(case):
    """The step of one process, with the whole batch in one chunk."""
    objective = case.chunked(None).objective().double()
    return _taken(take(objective, case.batch()), objective, {})


def _taken(output, objective, counts):
    numbers = {name: term.numpy() for name, term in output.terms.items()}
    found = {name: value.numpy() for name, value in gradients(objective, whole=False).items()}
    return Taken(output.loss.numpy(), numbers, found, dict(counts))


def _whole(every, kind):
    """The gradients of each rank."""
    if kind == "ddp":
        return [found.gradients for found in every]
    names = every[0].gradients
    return [{name: np.concatenate([x.gradients[name] for x in every]) for name in names}]


def compare(ranks, case, way):
    """All ranks have the loss and the gradients of one process, and met once in the step.

    In float64, where orders of summation cannot hide a mistake, nor pass for one. Returns how
    often each collective operation ran.
    """
    expected = alone(case)
    every = ranks(way.world).call(of_ranks, way.of(case), way.kind)
    for found in every:
        close = {"atol": EXACT, "rtol": EXACT}
        torch.testing.assert_close(found.loss, expected.loss, **close)
        torch.testing.assert_close(found.terms, expected.terms, **close)
        assert found.collectives == every[0].collectives
    for whole in _whole(every, way.kind):
        assert_equal_gradients(_tensors(whole), _tensors(expected.gradients), EXACT)
    return every[0].collectives


def _tensors(arrays):
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
