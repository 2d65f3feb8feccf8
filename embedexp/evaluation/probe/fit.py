"""One training of a probe, and its predictions."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from embedexp.batching.permutation import key_of
from embedexp.config.schema.optimizer import AdamW
from embedexp.embedding.encoding import batches
from embedexp.training.optimizer import build

from .metrics import score
from .model import ProbeModel, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from embedexp.config.schema.probe import ProbeStage, ProbeTask
    from embedexp.embedding import Embedder

    from .examples import Examples, TaskData

REACH = 2**63
INNER = "embedder."
"""What the backbone's weights are called in a model with a head."""


@dataclass(frozen=True)
class Cell:
    """One training: a task, a point of the grid, a seed."""

    task: str
    batch_size: int
    learning_rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.task} batch {self.batch_size} lr {self.learning_rate:g} seed {self.seed}"


def steps_of(stage: ProbeStage, examples: int, batch_size: int) -> int:
    """Optimizer steps of one training: whole epochs, the last batch of each as small as it is."""
    steps = stage.epochs * ceil(examples / batch_size)
    return steps if stage.max_steps is None else min(steps, stage.max_steps)


def start(
    embedder: Embedder, state: Mapping[str, Tensor], stage: ProbeStage, cell: Cell, outputs: int
) -> ProbeModel:
    """The embedder with its first weights again, and a new head that the seed alone decides.

    `state` may hold the `dense` layer of a head, too (of the model that a task starts from).
    """
    inner = {name: weight for name, weight in state.items() if name.startswith(INNER)}
    embedder.load_state_dict({name.removeprefix(INNER): w for name, w in inner.items()})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(cell.seed, "head", cell.task) % REACH)
        model = ProbeModel(embedder, stage.pooling, stage.head_dropout, outputs)
    with torch.no_grad():
        for name, parameter in model.dense.named_parameters():
            if (found := state.get(f"dense.{name}")) is not None:
                parameter.copy_(found)
    return model.to(embedder.device)


def train(
    model: ProbeModel,
    data: TaskData,
    task: ProbeTask,
    stage: ProbeStage,
    cell: Cell,
    on_step: Callable[[], None],
) -> bool:
    """Fine-tune `model` by the stage's protocol; False where the loss stopped being a number.

    Each epoch is a new order of the training split. AdamW, linear warm-up over `warmup_ratio` of
    the steps, then linear to zero; cross entropy, or the mean squared error for regression.
    """
    total = steps_of(stage, len(data.train), cell.batch_size)
    option = AdamW(
        name="adamw",
        learning_rate=cell.learning_rate,
        weight_decay=stage.weight_decay,
        betas=stage.betas,
        eps=stage.eps,
        schedule="linear",
        warmup_steps=ceil(stage.warmup_ratio * total),
        max_grad_norm=stage.max_grad_norm,
    )
    optimizer, schedule = build(option, model, total)
    device = model.embedder.device
    devices = [device] if device.type == "cuda" else []
    model.train()
    done = 0
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(key_of(cell.seed, "dropout", cell.task) % REACH)
        for epoch in range(stage.epochs):
            for index in _epoch(len(data.train), cell, epoch):
                if done == total:
                    break
                loss = _loss(model, data.train, index, task, stage)
                if not torch.isfinite(loss):
                    return False
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                if stage.max_grad_norm is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), stage.max_grad_norm)
                optimizer.step()
                schedule.step()
                done += 1
                on_step()
    return True


def _epoch(examples: int, cell: Cell, epoch: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(key_of(cell.seed, "order", cell.task, epoch) % REACH)
    order: list[int] = torch.randperm(examples, generator=generator).tolist()
    size = cell.batch_size
    return [order[i : i + size] for i in range(0, examples, size)]


def _loss(
    model: ProbeModel, examples: Examples, index: list[int], task: ProbeTask, stage: ProbeStage
) -> Tensor:
    device = model.embedder.device
    labels = torch.as_tensor(examples.labels[index], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=stage.precision == "bf16_mixed"):
        scores = model(*pack(examples, index, device))
    if task.kind == "regression":
        return functional.mse_loss(scores[:, 0], labels.float())
    return functional.cross_entropy(scores.view(len(index), -1), labels)


def predict(
    model: ProbeModel, examples: Examples, task: ProbeTask, stage: ProbeStage
) -> NDArray[np.int64] | NDArray[np.float64]:
    """Classes, places of answers, or numbers, `[n]`."""
    device = model.embedder.device
    scores = np.zeros((len(examples), model.output.out_features * examples.choices), np.float64)
    several = examples.choices
    lengths = [
        max(len(tokens) for tokens in examples.tokens[i * several : (i + 1) * several]) * several
        for i in range(len(examples))
    ]
    model.eval()
    with torch.inference_mode():
        for index in batches(lengths, stage.batch_tokens):
            with torch.autocast(
                device.type, torch.bfloat16, enabled=stage.precision == "bf16_mixed"
            ):
                found = model(*pack(examples, index, device))
            scores[index] = found.view(len(index), -1).double().cpu().numpy()
    return scores[:, 0] if task.kind == "regression" else scores.argmax(axis=1)


def measure(
    model: ProbeModel, parts: Mapping[str, Examples], task: ProbeTask, stage: ProbeStage
) -> dict[str, dict[str, float]]:
    """Every measure of the task on every part, by the part's name."""
    found: dict[str, dict[str, float]] = {}
    for name, examples in parts.items():
        predicted = predict(model, examples, task, stage)
        found[name] = {metric: score(metric, examples.labels, predicted) for metric in task.metrics}
    return found
