"""From the plan's rows to the packed batch of a training step."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from embedexp.config.tasks import INSTRUCTIONS, NEGATIVE, POSITIVE, QUERY, instruction

from .layout import Layout, shares_by_task
from .token_batch import TokenBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from embedexp.data.tokenise import TokenisedCorpus, TokenisedDataset

    from .plan import Rows

    Choose = Callable[[int, NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True)
class TrainingBatch:
    """One step's examples: q queries with their positives, and m hard negatives in all.

    The global batch has 2q + m sequences: the queries, the positives and the hard negatives, in
    this order. `tokens` holds those of them that this rank embeds, in the same order; `layout`
    says which. All else describes the global batch, on every rank.

    Keys `[q, 2]`, `[q, 2]`, `[q, h, 2]` (int64) say which texts must not be negatives of each
    other: those that agree in a column (the text, its group), where -1 agrees with nothing.
    `negative_slots [q, h]` says which of the m hard negatives a query owns, -1 for none.
    `scores [q]` are the grades of scored pairs; `teacher_scores [q, 1+h]` a teacher's scores of
    the positive and the hard negatives; both are NaN where absent, None where all would be.
    `tasks` names each example's training task, `examples [q, 2]` its dataset and row there.
    """

    tokens: TokenBatch
    tasks: tuple[str, ...]
    query_keys: Tensor
    positive_keys: Tensor
    negative_keys: Tensor
    negative_slots: Tensor
    scores: Tensor | None
    teacher_scores: Tensor | None
    examples: Tensor
    layout: Layout

    def __len__(self) -> int:
        return len(self.tasks)

    def to(self, device: torch.device | str, **_: Any) -> TrainingBatch:
        """The same batch on another device (Lightning calls this)."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return TrainingBatch(
            **{k: v.to(device) if hasattr(v, "to") else v for k, v in values.items()}
        )

    def figures(self) -> dict[str, Any]:
        """What metrics say of the batch: `tasks`, `tokens` of all ranks, `hard_negatives` a query.

        The last is a mean over queries of what the batch holds, before a loss masks any.
        """
        count = int((self.negative_slots >= 0).sum())
        return {
            "tasks": sorted(set(self.tasks)),
            "tokens": self.layout.tokens,
            "hard_negatives": count / max(len(self), 1),
        }

    def split(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Queries `[q, d]`, positives `[q, d]`, hard negatives `[q, h, d]` and their mask `[q, h]`.

        `vectors [2q+m, d]` are those of the global batch; the last two are None without hard
        negatives, and rows that the mask excludes are zero.
        """
        count = len(self)
        queries, positives, flat = vectors.tensor_split([count, 2 * count])
        if self.negative_slots.shape[1] == 0:
            return queries, positives, None, None
        mask = self.negative_slots >= 0
        padded = vectors.new_zeros(*mask.shape, vectors.shape[1])
        padded[mask] = flat[self.negative_slots[mask]]
        return queries, positives, padded, mask

    def subset(self, index: Tensor, vectors: Tensor) -> tuple[TrainingBatch, Tensor]:
        """The examples `index [k]` alone, and their rows of `vectors [2q+m, d]`.

        `tokens` and `layout` stay those of the whole batch: what is embedded doesn't change.
        """
        slots = self.negative_slots[index]
        present = slots >= 0
        count = len(self)
        rows = torch.cat([index, count + index, 2 * count + slots[present]])
        renumbered = torch.full_like(slots, -1)
        renumbered[present] = torch.arange(int(present.sum()), device=slots.device)
        part = replace(
            self,
            tasks=tuple(self.tasks[i] for i in index.tolist()),
            query_keys=self.query_keys[index],
            positive_keys=self.positive_keys[index],
            negative_keys=self.negative_keys[index],
            negative_slots=renumbered,
            scores=None if self.scores is None else self.scores[index],
            teacher_scores=None if self.teacher_scores is None else self.teacher_scores[index],
            examples=self.examples[index],
        )
        return part, vectors.index_select(0, rows)


def collate(
    corpus: TokenisedCorpus,
    rows: Sequence[Rows],
    rank: int = 0,
    world: int = 1,
    choose: Choose | None = None,
) -> TrainingBatch:
    """The batch of the examples in `rows`, with the tokens of `rank` among `world`.

    All hard negatives of an example are in it, or those in the columns `[k, h]` that
    `choose(dataset, examples [k])` names.

    Ranks get consecutive examples, each query with its documents, of about as many tokens; where
    there are several tasks and ranks enough, no rank has two.
    """
    parts = [
        _Part(
            corpus.datasets[row.dataset],
            row,
            None if choose is None else choose(row.dataset, row.examples),
        )
        for row in rows
    ]
    sizes = np.array([len(row.examples) for row in rows])
    tasks = tuple(task for row in rows for task in [row.task] * len(row.examples))
    negative_ids = _widened(parts, "negative_ids", -1)
    present = negative_ids >= 0
    owner, column = np.nonzero(present)  # of each hard negative, in their order
    slots = np.full(present.shape, -1, np.int64)
    slots[present] = np.arange(len(owner))

    ids = np.concatenate([_column(parts, "query_ids"), _column(parts, "positive_ids")])
    ids = np.concatenate([ids, negative_ids[present]])
    examples = np.arange(len(tasks))
    examples = np.concatenate([examples, examples, owner])  # of each sequence
    offsets = corpus.store.offsets
    lengths = np.asarray(offsets[ids + 1] - offsets[ids], dtype=np.int64)
    weights = np.bincount(examples, lengths, minlength=len(tasks)).astype(np.int64)
    layout = Layout(rank, world, lengths, shares_by_task(weights, tasks, world)[examples])

    query_tasks, document_tasks = (
        np.repeat([_task_id(row.task, is_query=side) for row in rows], sizes)
        for side in (True, False)
    )
    task_ids = np.concatenate([query_tasks, document_tasks, document_tasks[owner]])
    roles = np.repeat([QUERY, POSITIVE], len(tasks))
    roles = np.concatenate([roles, NEGATIVE + column])
    own = layout.members(rank)
    flat, cu_seqlens = corpus.store.gather(ids[own])

    scored = any(part.data.scores is not None for part in parts)
    taught = any(part.data.teacher_scores is not None for part in parts)
    return TrainingBatch(
        tokens=TokenBatch(
            _tensor(flat), _tensor(cu_seqlens), _tensor(task_ids[own]), _tensor(roles[own])
        ),
        tasks=tasks,
        query_keys=_tensor(_column(parts, "query_keys")),
        positive_keys=_tensor(_column(parts, "positive_keys")),
        negative_keys=_tensor(_widened(parts, "negative_keys", -1)),
        negative_slots=_tensor(slots),
        scores=_tensor(_scores(parts), np.float32) if scored else None,
        teacher_scores=_tensor(_teacher_scores(parts), np.float32) if taught else None,
        examples=_tensor(
            np.stack(
                [
                    np.repeat([row.dataset for row in rows], sizes),
                    np.concatenate([row.examples for row in rows]),
                ],
                axis=1,
            )
        ),
        layout=layout,
    )


class _Part(NamedTuple):
    """Examples of one dataset; `columns [k, h]` names their hard negatives, None means all."""

    data: TokenisedDataset
    row: Rows
    columns: NDArray[np.int64] | None

    @property
    def width(self) -> int:
        """Hard negatives an example has at most."""
        shape = (self.data.negative_ids if self.columns is None else self.columns).shape
        return int(shape[1])

    def of(self, name: str) -> NDArray[Any]:
        """A column of the dataset, for these examples."""
        found: NDArray[Any] = getattr(self.data, name)[self.row.examples]
        return found

    def of_negatives(self, name: str) -> NDArray[Any]:
        """A column of hard negatives, for these examples, `[k, h, ...]`."""
        block = self.of(name)
        if self.columns is None:
            return block
        places = self.columns.reshape(*self.columns.shape, *[1] * (block.ndim - 2))
        return np.take_along_axis(block, places, axis=1)

    def of_teacher(self) -> NDArray[Any]:
        """The teacher's scores of the positive and the hard negatives, `[k, 1+h]`."""
        scores = self.of("teacher_scores")
        if self.columns is None:
            return scores
        chosen = np.take_along_axis(scores[:, 1:], self.columns, axis=1)
        return np.concatenate([scores[:, :1], chosen], axis=1)


_Parts = list[_Part]


def _tensor(values: NDArray[Any], dtype: type[np.generic] = np.int64) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype))


def _task_id(task: str, *, is_query: bool) -> int:
    return INSTRUCTIONS.index(instruction(task, is_query=is_query))


def _column(parts: _Parts, name: str) -> NDArray[Any]:
    return np.concatenate([part.of(name) for part in parts])


def _padded(block: NDArray[Any], width: int, fill: float) -> NDArray[Any]:
    """`block [n, h, ...]` with h filled up to `width`."""
    missing = [(0, 0), (0, width - block.shape[1]), *[(0, 0)] * (block.ndim - 2)]
    return np.pad(block, missing, constant_values=fill)


def _widened(parts: _Parts, name: str, fill: int) -> NDArray[Any]:
    """A column of hard negatives, `[q, h, ...]`, h that of the dataset with the most."""
    width = max(part.width for part in parts)
    return np.concatenate([_padded(part.of_negatives(name), width, fill) for part in parts])


def _scores(parts: _Parts) -> NDArray[Any]:
    return np.concatenate(
        [
            np.full(len(part.row.examples), np.nan)
            if part.data.scores is None
            else part.of("scores")
            for part in parts
        ]
    )


def _teacher_scores(parts: _Parts) -> NDArray[Any]:
    width = 1 + max(part.width for part in parts)
    blocks = []
    for part in parts:
        if part.data.teacher_scores is None:
            blocks.append(np.full((len(part.row.examples), width), np.nan, np.float32))
        else:
            blocks.append(_padded(part.of_teacher(), width, np.nan))
    return np.concatenate(blocks)
