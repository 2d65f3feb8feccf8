"""What `gpu.py` trains: models with random weights, made-up batches, and their plain twins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import made_up
import numpy as np
import torch
from torch.nn.functional import normalize

import embedexp
from embedexp.batching.collate import TrainingBatch, collate
from embedexp.batching.plan import Rows
from embedexp.embedding import build_embedder
from embedexp.loss import info_nce
from embedexp.training import optimizer
from embedexp.training.fit import objective_of
from embedexp.training.objective import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from torch import Tensor

    from embedexp.embedding import Embedder
    from embedexp.training.contrastive import ContrastiveObjective

RANDOM = ["backbone.source=null", "backbone.weights=random", "backbone.tokenizer=builtin"]
COMMON = ["evaluation=none", "tracking=none", "loss.temperature=0.05"]

ENCODER = ["backbone=nomic_bert_2048", *RANDOM]
LLAMA = ["backbone=llama_3_2_1b", *RANDOM, "mask_schedule=linear", "backbone.dtype=bfloat16"]
TINY_ENCODER = [
    *ENCODER,
    "backbone.architecture.hidden_size=32",
    "backbone.architecture.num_hidden_layers=2",
    "backbone.architecture.num_attention_heads=2",
    "backbone.architecture.intermediate_size=64",
]
TINY_LLAMA = ["backbone=tiny_llama", "mask_schedule=linear", "backbone.dtype=bfloat16"]


def compose(*overrides: str) -> Any:
    """An experiment's config, its memory on this machine aside."""
    return embedexp.compose([*COMMON, *overrides])


def natural(pairs: int, longest: int) -> NDArray[np.int64]:
    """Lengths of queries, then of positives: log-normal, as texts have them."""
    random = np.random.default_rng(0)
    queries = random.lognormal(2.5, 0.5, pairs)
    positives = random.lognormal(4.6, 0.7, pairs)
    lengths = np.concatenate([queries, positives]).astype(np.int64)
    return np.clip(lengths, 4, longest)


def batch_of(lengths: NDArray[np.int64], device: str) -> TrainingBatch:
    """A batch of made-up pairs, the first half of the lengths being those of queries."""
    rows = Rows("retrieval", 0, np.arange(len(lengths) // 2))
    return collate(made_up.corpus(lengths), [rows]).to(device)


def objective(config: Any, device: str) -> ContrastiveObjective:
    """A model to be trained, with its loss, on the device."""
    return objective_of(config, build_embedder(config, device)).to(device).train()


def optimizer_of(config: Any, model: ContrastiveObjective) -> torch.optim.Optimizer:
    """The experiment's optimizer; steps that are compared share one, and so its memory."""
    return optimizer.build(config.optimizer, model, 1000)[0]


def training_step(
    update: torch.optim.Optimizer,
    model: ContrastiveObjective,
    batch: TrainingBatch,
    alpha: float = 1.0,
) -> Callable[[], None]:
    """Forward, backward, clipping and optimizer, as a run's step does them, in bf16.

    Weights in float32 are autocast; those in bf16 need no autocast.
    """
    device = batch.tokens.input_ids.device.type
    mixed = next(model.parameters()).dtype == torch.float32

    def run() -> None:
        update.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=mixed):
            model.step(batch, Step(0, alpha, 0, 0, 1, model))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()

    return run


def gradients(model: ContrastiveObjective, batch: TrainingBatch, alpha: float = 1.0) -> Tensor:
    """All parameters' gradients of a step, `[parameters]` float32, in the weights' precision."""
    model.zero_grad(set_to_none=True)
    model.step(batch, Step(0, alpha, 0, 0, 1, model))
    return flat_gradients(model)


def flat_gradients(model: torch.nn.Module) -> Tensor:
    """The gradients that there are, in the order of the parameters; then forgotten."""
    found = [p.grad.flatten().float() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return torch.cat(found)


def padded_vectors(embedder: Embedder, batch: TrainingBatch, alpha: float | None) -> Tensor:
    """Vectors of the batch by transformers' own padded attention: queries, then positives.

    With `alpha`, the mask schedule's weights are the additive mask, `[n, 1, l, l]`.
    """
    pairs, parts = len(batch), []
    for rows in (slice(0, pairs), slice(pairs, None)):
        index = torch.arange(2 * pairs, device=batch.tokens.input_ids.device)[rows]
        ids, mask = batch.tokens.select(index).padded()
        given = mask
        if alpha is not None:
            closed = torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, -torch.inf)
            given = (embedder.schedule.bias(mask.sum(1), alpha) + closed[:, None])[:, None]
        hidden = embedder.model(input_ids=ids, attention_mask=given).last_hidden_state
        real = mask[..., None]
        parts.append((hidden.float() * real).sum(1) / real.sum(1))
    return normalize(torch.cat(parts), dim=-1)


def padded_loss(embedder: Embedder, batch: TrainingBatch, alpha: float | None = None) -> Tensor:
    """The loss of the batch by padded attention."""
    queries, positives = padded_vectors(embedder, batch, alpha).chunk(2)
    return info_nce(queries, positives, temperature=0.05, denominator=["other_positives"])


def padded_step(
    update: torch.optim.Optimizer, model: ContrastiveObjective, batch: TrainingBatch
) -> Callable[[], None]:
    """The training step with padded attention; the rest is the same."""
    device = batch.tokens.input_ids.device.type

    def run() -> None:
        update.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = padded_loss(model.embedder, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update.step()

    return run


def efficiency(lengths: NDArray[np.int64]) -> float:
    """Share of real tokens where queries and positives are padded, each to their longest."""
    sides = np.split(lengths, 2)
    return float(lengths.sum() / sum(len(side) * side.max() for side in sides))
