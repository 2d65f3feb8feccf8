"""What gradients are compared on: tiny models, made-up data, and every option that there is."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributed.tensor import DTensor

import embedexp
from embedexp import batching, loss
from embedexp.batching.collate import TrainingBatch, collate
from embedexp.batching.sources import sources_of
from embedexp.config.locations import conf_dir
from embedexp.data.store import TokenStore
from embedexp.data.tokenise import TokenisedCorpus, TokenisedDataset
from embedexp.training.contrastive import ContrastiveObjective
from embedexp.training.objective import Step, StepOutput

SMALL = [
    "backbone=tiny",
    "backbone.architecture.hidden_size=16",
    "backbone.architecture.num_attention_heads=2",
    "backbone.architecture.intermediate_size=24",
    "tracking=none",
    "evaluation=none",
]
TASKS = ("retrieval", "classification", "clustering", "sts")
HARD = 3  # hard negatives at most


def options(group: str) -> list[str]:
    """The options in the folder of a config group."""
    return sorted(path.stem for path in Path(conf_dir(), group).glob("*.yaml"))


def composed(*overrides: str) -> Any:
    """A small experiment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return embedexp.compose([*SMALL, *overrides])


def corpus(
    tasks: tuple[str, ...] = TASKS, *, negatives: bool, seed: int = 0, size: int = 23
) -> TokenisedCorpus:
    """Texts of 1 to 9 tokens in a dataset per task, with groups, grades, and a teacher's scores.

    Hard negatives are ragged: none to `HARD` of them.
    """
    rng = np.random.default_rng(seed)
    texts = 400
    lengths = rng.integers(1, 10, texts)
    store = TokenStore(
        rng.integers(5, 97, lengths.sum()).astype(np.int32), np.r_[0, lengths.cumsum()]
    )
    hashes = rng.integers(0, 2**62, texts)
    datasets = []
    for number, task in enumerate(tasks):
        query_ids, positive_ids = rng.choice(texts, (2, size), replace=False)
        width = HARD if negatives and task != "sts" else 0
        negative_ids = rng.integers(0, texts, (size, width))
        negative_ids[np.arange(width) >= rng.integers(0, width + 1, size)[:, None]] = -1
        groups = rng.integers(0, 6, size) if task in ("classification", "clustering") else None
        group = np.full(size, -1) if groups is None else 1000 * number + groups
        teacher = np.where(
            np.c_[np.zeros(size), negative_ids] < 0, np.nan, rng.random((size, 1 + width))
        )
        datasets.append(
            TokenisedDataset(
                name=f"{task}-{number}",
                task=task,
                weight=1.0 + number,
                language="",
                lengths=lengths[query_ids] + lengths[positive_ids],
                query_ids=query_ids,
                positive_ids=positive_ids,
                negative_ids=negative_ids,
                query_keys=np.stack([hashes[query_ids], group], 1),
                positive_keys=np.stack([hashes[positive_ids], group], 1),
                negative_keys=np.stack(
                    [np.where(negative_ids < 0, -1, hashes[negative_ids]), negative_ids * 0 - 1], 2
                ),
                scores=rng.random(size).round(1).astype(np.float32) if task == "sts" else None,
                teacher_scores=teacher.astype(np.float32),
            )
        )
    return TokenisedCorpus(store, tuple(datasets))


def plan(option: Any, data: TokenisedCorpus) -> Any:
    """The batch plan of an option over the corpus."""
    return batching.build(option, sources_of(data, option), 0)


@dataclass(frozen=True)
class Case:
    """One comparison: the options, by value, and how the batch is embedded."""

    name: str
    config: Any
    loss: Any
    batching: Any
    negatives: bool
    chunk_tokens: int | None = None
    step: int = 0

    def chunked(self, tokens: int | None) -> Case:
        """The same, in chunks."""
        return replace(self, chunk_tokens=tokens)

    def batch(self, rank: int = 0, world: int = 1) -> TrainingBatch:
        """The batch, as a rank sees it."""
        data = corpus(tuple(t for t in TASKS if t in self.loss.tasks), negatives=self.negatives)
        return collate(data, plan(self.batching, data)(self.step), rank, world)

    def objective(self, dropout: bool = False) -> ContrastiveObjective:
        """A fresh objective in training, equal on all ranks."""
        embedder = copy.deepcopy(_embedder(self.config.model_dump_json(), self.config))
        for module in embedder.modules():
            if isinstance(module, nn.Dropout) and not dropout:
                module.p = 0.0
        built = ContrastiveObjective(
            embedder, loss.build(self.loss), self.config.routing, self.chunk_tokens
        )
        return built.train()


_built: dict[str, nn.Module] = {}


def _embedder(key: str, config: Any) -> nn.Module:
    """The model of a config, built once: copies are cheaper."""
    if key not in _built:
        embedder = embedexp.build_embedder(config)
        embedder.tokenizer = None
        _built[key] = embedder
    return _built[key]


def take(
    objective: ContrastiveObjective,
    batch: TrainingBatch,
    *,
    model: nn.Module | None = None,
    alpha: float = 1.0,
) -> StepOutput:
    """One step's gradients."""
    layout = batch.layout
    step = Step(3, alpha, 0, layout.rank, layout.world, model or objective)
    return objective.step(batch, step)


def gradients(module: nn.Module, *, whole: bool = True) -> dict[str, torch.Tensor]:
    """The gradient of every trained parameter; all must have one.

    Of gradients in shards, the whole, or this rank's rows.
    """
    found = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            gradient = parameter.grad
            assert gradient is not None, f"{name} has no gradient"
            if isinstance(gradient, DTensor):
                places = gradient.placements
                assert all(place.is_shard(0) or place.is_replicate() for place in places)
                gradient = gradient.full_tensor() if whole else gradient.to_local()
            found[name] = gradient.clone()
    return found


def assert_equal_gradients(
    found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float = 1e-6
) -> None:
    """No gradient is off by more than `tolerance` of the largest one of all."""
    assert found.keys() == expected.keys()
    largest = max(float(value.abs().max()) for value in expected.values())
    assert largest > 1e-4, "nothing to compare"
    errors = {name: float((found[name] - value).abs().max()) for name, value in expected.items()}
    worst = max(errors, key=errors.__getitem__)
    assert errors[worst] <= tolerance * largest, f"{worst}: {errors[worst]} of {largest}"
