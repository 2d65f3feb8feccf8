"""Language models: 2 and 4 ranks have the gradient of one process, with and without chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch

import embedexp
from embedexp.backbone import heads
from embedexp.batching.blocks import Blocks
from embedexp.batching.plan import Rows
from embedexp.data.store import TokenStore
from embedexp.data.texts import TokenisedPairs
from embedexp.loss.causal_lm import NextToken
from embedexp.loss.mlm import Masking, Words
from embedexp.loss.sft import Answers
from embedexp.training.language_batches import Continued, Masked, block_batch, pair_batch
from embedexp.training.language_model import LanguageObjective

from . import worker
from .cases import SMALL
from .covering import choose

SIZES = [*SMALL, "backbone.dropout=0"]
CASES = {
    "mlm, tied": [*SIZES, "stage=mlm"],
    "mlm, experts": [*SIZES, "stage=mlm", "routing=moe", "routing.num_experts=4"],
    "causal, untied": [
        "backbone=tiny_llama",
        "backbone.architecture.hidden_size=16",
        "backbone.architecture.intermediate_size=24",
        "tracking=none",
        "stage=causal_lm",
    ],
    "sft": [*SIZES, "stage=sft", "mask_schedule=causal"],
    "fewer blocks than ranks": [*SIZES, "stage=mlm"],
}
FACTORS = {"name": list(CASES), "kind": worker.KINDS, "cached": (False, True)}
RUNS = [
    (row["name"], worker.Way(row["kind"], row["cached"], row["world"]))
    for row in choose({**FACTORS, "world": worker.WORLDS})
]


@cache
def _composed(name):
    return embedexp.compose(CASES[name])


@dataclass(frozen=True)
class LanguageCase:
    """One comparison, as `worker` takes it."""

    name: str
    chunk_tokens: int | None = None

    @property
    def config(self):
        """The experiment."""
        return _composed(self.name)

    def chunked(self, tokens):
        """The same, in chunks."""
        return replace(self, chunk_tokens=tokens)

    def batch(self, rank=0, world=1):
        """A few blocks, or pairs, as a rank sees them."""
        rng = np.random.default_rng(0)
        lengths = rng.integers(1, 12, 40)
        flat = rng.integers(10, 8000, lengths.sum()).astype(np.int32)
        ends, config = np.r_[0, lengths.cumsum()], self.config
        chosen = [2, 5] if "fewer" in self.name else [0, 2, 3, 7, 9]
        rows = [Rows("retrieval", 0, np.array(chosen))]
        if config.stage.name == "sft":
            pairs = TokenisedPairs(
                "pairs", "retrieval", 1.0, "", TokenStore(flat, ends), 0, 20, 20, 0, 0, 2
            )
            return pair_batch([pairs], rows, Answers(), rank=rank, world=world)
        blocks = Blocks(flat, ends, 16, joined=False)
        if config.stage.name == "mlm":
            corruption = Masked(Masking(config.loss), Words(4, range(10, 8000)))
        else:
            corruption = Continued(NextToken())
        return block_batch([blocks], rows, corruption, key=("test",), rank=rank, world=world)

    def objective(self):
        """A fresh objective, equal on all ranks."""
        config = self.config
        embedder = embedexp.build_embedder(config)
        torch.manual_seed(1)
        head = heads.load(config.backbone, embedder.model)
        return LanguageObjective(
            config.loss.name, embedder, head, config.routing, self.chunk_tokens
        ).train()


@pytest.mark.parametrize(("name", "way"), RUNS, ids=str)
def test_ranks_have_the_gradient_of_one_process(ranks, name, way):
    worker.compare(ranks, LanguageCase(name), way)
