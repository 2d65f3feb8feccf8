"""Batches for language models: blocks of documents, or pairs as prompts and answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from embedexp.batching.layout import Layout, shares
from embedexp.batching.permutation import key_of
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.tasks import INSTRUCTIONS, POSITIVE, instruction
from embedexp.loss.language import IGNORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedexp.batching.blocks import Blocks
    from embedexp.batching.plan import BatchPlan, Rows
    from embedexp.data.texts import TokenisedPairs
    from embedexp.loss.causal_lm import NextToken
    from embedexp.loss.mlm import Masking, Words
    from embedexp.loss.sft import Answers


@dataclass(frozen=True)
class LanguageBatch:
    """One step's sequences: this rank's `tokens`, and their `labels [t]`, -100 for none.

    `predictions` counts the labels of the global batch, `examples` its blocks or pairs; `layout`
    says which rank has which of its sequences.
    """

    tokens: TokenBatch
    labels: Tensor
    predictions: int
    examples: int
    layout: Layout

    def __len__(self) -> int:
        return self.examples

    def to(self, device: torch.device | str, **_: Any) -> LanguageBatch:
        """The same batch on another device (Lightning calls this)."""
        return replace(self, tokens=self.tokens.to(device), labels=self.labels.to(device))

    def figures(self) -> dict[str, Any]:
        """What metrics say of the batch: `tokens` and `predictions`, of all ranks."""
        return {"tokens": self.layout.tokens, "predictions": self.predictions}

    def select(self, index: Tensor) -> tuple[TokenBatch, Tensor]:
        """The sequences `index [m]` of this rank and their labels."""
        places = torch.arange(self.labels.numel(), device=self.labels.device)
        rows = replace(self.tokens, input_ids=places).select(index).input_ids
        return self.tokens.select(index), self.labels[rows]


class Corruption(Protocol):
    """What is read and what is predicted in blocks; the same for the same block and key."""

    def __call__(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], key: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens and labels, both `[t]`, of a block with sequences of `lengths`."""
        ...

    def count(self, blocks: Blocks, block: int, key: int) -> int:
        """How many labels a block gets."""
        ...


@dataclass(frozen=True)
class Masked:
    """Blocks whose words are hidden."""

    masking: Masking
    words: Words

    def __call__(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], key: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What `loss=mlm` reads and predicts."""
        return self.masking(tokens, key, self.words)

    def count(self, blocks: Blocks, block: int, key: int) -> int:
        """How many words of a block are hidden."""
        return int(self.masking.hidden(blocks[block][0], key, self.words).sum())


@dataclass(frozen=True)
class Continued:
    """Blocks whose every token is followed by the next."""

    next_token: NextToken

    def __call__(
        self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], key: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What `loss=causal_lm` reads and predicts."""
        return tokens, self.next_token(tokens, _ends(lengths))

    def count(self, blocks: Blocks, block: int, key: int) -> int:
        """All tokens but the first of each sequence."""
        bounds = blocks.bounds(block)
        return int(bounds[-1] - bounds[0]) - (len(bounds) - 1)


def block_batch(
    datasets: Sequence[Blocks],
    rows: Sequence[Rows],
    corruption: Corruption,
    *,
    key: tuple[object, ...],
    rank: int = 0,
    world: int = 1,
) -> LanguageBatch:
    """The batch of the blocks in `rows`; ranks get consecutive ones, of about as many tokens.

    What happens to a block is a function of `key` and of its place in the global batch.
    """
    places = [(datasets[row.dataset], int(block)) for row in rows for block in row.examples]
    lengths = [np.diff(blocks.bounds(block)) for blocks, block in places]
    owners = shares(np.array([part.sum() for part in lengths], np.int64), world)
    counts = np.array([len(part) for part in lengths])
    layout = Layout(rank, world, np.concatenate(lengths), np.repeat(owners, counts))
    parts, predictions = [], 0
    for place, (blocks, block) in enumerate(places):
        own = key_of(*key, place)
        if owners[place] != rank:
            predictions += corruption.count(blocks, block, own)
            continue
        tokens, here = blocks[block]
        seen, labels = corruption(tokens, here, own)
        predictions += int((labels != IGNORED).sum())
        parts.append((seen, here, labels))
    task = np.full(sum(len(here) for _, here, _ in parts), INSTRUCTIONS.index("search_document"))
    return _batch(parts, task, predictions, len(places), layout)


def pair_batch(
    datasets: Sequence[TokenisedPairs],
    rows: Sequence[Rows],
    answers: Answers,
    *,
    rank: int = 0,
    world: int = 1,
) -> LanguageBatch:
    """The batch of the pairs in `rows`, each one sequence; ranks get consecutive ones."""
    places = [(datasets[row.dataset], int(i)) for row in rows for i in row.examples]
    both = [datasets[row.dataset].lengths(row.examples) for row in rows]
    prompts, lengths = (np.concatenate(side) for side in zip(*both, strict=True))
    layout = Layout(rank, world, lengths, shares(lengths, world))
    own = layout.members(rank)
    parts, tasks = [], []
    for place in own:
        data, row = places[place]
        tokens, here = data[row], lengths[place : place + 1]
        labels = answers(tokens, _ends(here), prompts[place : place + 1])
        parts.append((tokens, here, labels))
        tasks.append(INSTRUCTIONS.index(instruction(data.task, is_query=False)))
    predictions = int((lengths - prompts).sum())
    return _batch(parts, np.array(tasks, np.int64), predictions, len(places), layout)


_Part = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.int64]"]


def _batch(
    parts: list[_Part],
    tasks: NDArray[np.int64],
    predictions: int,
    examples: int,
    layout: Layout,
) -> LanguageBatch:
    empty = np.zeros(0, np.int64)
    tokens, lengths, labels = (
        np.concatenate([empty, *(part[i] for part in parts)]) for i in range(3)
    )
    roles = np.full(len(lengths), POSITIVE, np.int64)
    packed = TokenBatch(*map(torch.from_numpy, (tokens, _ends(lengths), tasks, roles)))
    return LanguageBatch(packed, torch.from_numpy(labels), predictions, examples, layout)


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where sequences start and end, `[n+1]`."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True)
class Steps:
    """The batch of each step, a pure function of (seed, step); ranks share it out."""

    plan: BatchPlan
    datasets: Sequence[Blocks]
    corruption: Corruption
    seed: int

    def __call__(self, step: int, rank: int = 0, world: int = 1) -> LanguageBatch:
        """The batch of a 0-based step."""
        key = (self.seed, "language", step)
        rows = self.plan(step)
        return block_batch(self.datasets, rows, self.corruption, key=key, rank=rank, world=world)


@dataclass(frozen=True)
class PairSteps:
    """The pairs of each step, a pure function of (seed, step); ranks share them out."""

    plan: BatchPlan
    datasets: Sequence[TokenisedPairs]
    answers: Answers

    def __call__(self, step: int, rank: int = 0, world: int = 1) -> LanguageBatch:
        """The batch of a 0-based step."""
        return pair_batch(self.datasets, self.plan(step), self.answers, rank=rank, world=world)
