"""What the stages mlm, causal_lm and sft share: measure, train, save with the head, measure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from embedexp import batching, data
from embedexp.backbone import heads
from embedexp.batching.blocks import Blocks
from embedexp.batching.plan import Rows, Source
from embedexp.embedding import build_embedder, load, saving
from embedexp.files import write_atomically
from embedexp.training import strategy, tracking
from embedexp.training.fit import train
from embedexp.training.language_batches import Steps, block_batch
from embedexp.training.language_model import LanguageObjective

from . import building, pictures, pruning
from .contrastive import device, from_shards
from .evaluate import after, before

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from transformers import PreTrainedTokenizerBase

    from embedexp.config import Config
    from embedexp.config.schema.stage import CausalLMStage, MLMStage
    from embedexp.data.texts import TokenisedTexts
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest
    from embedexp.training.language_batches import Corruption, LanguageBatch
    from embedexp.training.world import World

    from .screen import Screen

HELDOUT = "heldout_loss.json"
"""In the run directory: loss, perplexity and accuracy on what was held out, before and after."""

TOGETHER = 16
"""Blocks or pairs that are measured at once."""


@dataclass(frozen=True)
class Task:
    """What a language model is trained on: batches by `(rank, world)` and step, and held-out ones.

    `heldout` may be gone through several times.
    """

    batches: Callable[[int, int], Callable[[int], LanguageBatch]]
    heldout: Sequence[Callable[[], LanguageBatch]]


def run(
    config: Config,
    directory: RunDirectory,
    stop: StopRequest,
    screen: Screen,
    world: World,
    prepare: Callable[[Config, data.Corpus, PreTrainedTokenizerBase], Task],
) -> None:
    """Train a language model, and leave its embedder, head, losses and plots in `directory`."""
    place = device(config, world)
    corpus = world.in_turn(lambda: data.load(config.data, config.paths.cache))
    stop.check()
    finished = world.tell(directory.model.is_dir())  # a model is saved whole, after the last step
    tracker = tracking.start(config, directory.path) if world.first else tracking.Tracker()
    try:
        embedder = load(directory.model) if finished else build_embedder(config)
        objective = building.language(config, embedder).to(place)
        task = world.in_turn(lambda: prepare(config, corpus, embedder.text_tokenizer))
        stop.check()
        losses = Losses(directory.path / HELDOUT, task, screen)
        if not finished:
            if world.first:
                losses.measure("before", objective)
                before(config, objective.embedder, directory, corpus.heldout, stop, screen)
            directory.update(message="training", total_steps=config.training.steps)
            train(
                config,
                objective.embedder,
                objective,
                task.batches,
                folder=directory.checkpoints,
                recorder=directory,
                stop=stop,
                screen=screen.training(config.training.steps),
                track=pruning.watched(
                    config,
                    directory,
                    stop,
                    tracker,
                    pruning.scoring(config, objective.embedder, corpus.heldout),
                ),
                world=world,
            )
            if world.first:
                if strategy.kind_of(config.compute, world.size) == "fsdp":
                    whole = from_shards(config, directory).to(place)
                    assert isinstance(whole, LanguageObjective)
                    objective = whole
                save(objective, directory.model)
        if not world.first:
            return
        losses.measure("after", objective)
        tracker.summary(losses.flat())
        after(config, objective.embedder, directory, corpus.heldout, stop, screen, tracker)
    finally:
        tracker.close()
    pictures.forget(config, directory)


def save(objective: LanguageObjective, model: Path) -> None:
    """Write the embedder's folder with the head in it, complete or not at all.

    Raises:
        UserError: the folder exists and holds something else than a model.
    """
    with saving.staged(model) as folder:
        saving.write(objective.embedder, folder)
        heads.save(objective.head, folder / heads.FILE)


class Losses:
    """Held-out losses of a run, kept as they come."""

    def __init__(self, path: Path, task: Task, screen: Screen) -> None:
        self.path, self.task, self.screen = path, task, screen

    def read(self) -> dict[str, dict[str, float]]:
        """What was measured so far, by phase."""
        if not self.path.is_file():
            return {}
        found: dict[str, dict[str, float]] = json.loads(self.path.read_text(encoding="utf-8"))
        return found

    def flat(self) -> dict[str, float]:
        """What was measured so far, under one name each."""
        found = self.read()
        return {f"heldout/{phase}/{k}": v for phase in found for k, v in found[phase].items()}

    def measure(self, phase: Literal["before", "after"], objective: LanguageObjective) -> None:
        """The mean loss over what was held out; nothing where that is nothing."""
        found = self.read()
        if phase in found or not self.task.heldout:
            return
        training = objective.training
        objective.eval()
        total = correct = predictions = 0.0
        place = objective.embedder.device
        for make in self.task.heldout:
            batch = make().to(place)
            result = objective.measure(batch)
            total += float(result.total)
            correct += float(result.correct)
            predictions += batch.predictions
        objective.train(training)
        mean = total / max(predictions, 1)
        found[phase] = {
            "loss": mean,
            "perplexity": math.exp(min(mean, 700)),
            "accuracy": correct / max(predictions, 1),
        }
        write_atomically(self.path, json.dumps(found, indent=2) + "\n")
        when = "before training" if phase == "before" else "after training"
        self.screen.say(
            f"held-out loss {when}: {mean:.4f} (perplexity {found[phase]['perplexity']:.4g}, "
            f"accuracy {found[phase]['accuracy']:.3f})"
        )


def block_task(
    config: Config,
    stage: MLMStage | CausalLMStage,
    texts: Sequence[TokenisedTexts],
    corruption: Corruption,
) -> Task:
    """Training on blocks of texts, with `corruption` deciding what is predicted in them."""
    blocks = blocks_of(texts, stage)
    plan = batching.build(config.batching, block_sources(texts, blocks, stage.holdout), config.seed)
    steps = Steps(plan, blocks, corruption, config.seed)
    return Task(
        lambda rank, world: partial(steps, rank=rank, world=world),
        heldout_blocks(blocks, corruption, stage.holdout),
    )


def blocks_of(texts: Sequence[TokenisedTexts], stage: MLMStage | CausalLMStage) -> list[Blocks]:
    """The texts of each dataset in blocks."""
    joined = stage.documents == "joined"
    return [Blocks(each.flat, each.offsets, stage.block_tokens, joined) for each in texts]


def kept_out(count: int, most: int) -> int:
    """How many of `count` blocks or pairs, the last ones, are held out."""
    return min(most, count // 10)


def block_sources(
    texts: Sequence[TokenisedTexts], blocks: Sequence[Blocks], holdout: int
) -> list[Source]:
    """The blocks to train on, as a plan sees them."""
    return [
        Source(
            each.name, "text", len(own) - kept_out(len(own), holdout), each.weight, each.language
        )
        for each, own in zip(texts, blocks, strict=True)
    ]


def heldout_blocks(
    blocks: Sequence[Blocks], corruption: Corruption, holdout: int
) -> list[Callable[[], LanguageBatch]]:
    """Batches of the blocks that are held out; the same for every seed."""

    def batch(rows: Rows) -> Callable[[], LanguageBatch]:
        key = ("heldout", rows.dataset, int(rows.examples[0]))
        return lambda: block_batch(blocks, [rows], corruption, key=key)

    return [batch(rows) for rows in last_rows([len(own) for own in blocks], holdout)]


def last_rows(counts: Sequence[int], holdout: int) -> Iterator[Rows]:
    """The held-out blocks or pairs of each dataset, a few at a time."""
    for dataset, count in enumerate(counts):
        first = count - kept_out(count, holdout)
        for start in range(first, count, TOGETHER):
            yield Rows("text", dataset, np.arange(start, min(start + TOGETHER, count)))
