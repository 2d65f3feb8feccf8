"""From the plan's rows to the packed batch of a training step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from embedexp.config.tasks import INSTRUCTIONS, NEGATIVE, POSITIVE, QUERY, instruction

from .token_batch import TokenBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embedexp.data.tokenise import TokenisedCorpus

    from .plan import Rows


@dataclass(frozen=True)
class TrainingBatch:
    """One step's examples: q queries with their positives, and m hard negatives in all.

    `tokens` holds the q queries, the q positives and the m hard negatives, in this order. Keys
    `[q]`, `[q]`, `[q, h]` (int64) are equal exactly where two texts must not be negatives of each
    other. `negative_slots [q, h]` says which of the m hard negatives a query owns, -1 for none.
    `scores [q]` are the grades of scored pairs. `tasks` names each example's training task.
    """

    tokens: TokenBatch
    tasks: tuple[str, ...]
    query_keys: Tensor
    positive_keys: Tensor
    negative_keys: Tensor
    negative_slots: Tensor
    scores: Tensor | None

    def __len__(self) -> int:
        return len(self.tasks)

    def to(self, device: torch.device | str, **_: Any) -> TrainingBatch:
        """The same batch on another device (Lightning calls this)."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return TrainingBatch(
            **{k: v.to(device) if hasattr(v, "to") else v for k, v in values.items()}
        )

    def split(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Queries `[q, d]`, positives `[q, d]`, hard negatives `[q, h, d]` and their mask `[q, h]`.

        `vectors [2q+m, d]` are the embeddings of `tokens`; the last two are None without hard
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


def collate(corpus: TokenisedCorpus, rows: Sequence[Rows]) -> TrainingBatch:
    """The packed batch of the examples in `rows`."""
    parts = [(corpus.datasets[row.dataset], row) for row in rows]
    tasks = [task for _, row in parts for task in [row.task] * len(row.examples)]
    query_ids = np.concatenate([data.query_ids[row.examples] for data, row in parts])
    positive_ids = np.concatenate([data.positive_ids[row.examples] for data, row in parts])

    width = max(data.negative_ids.shape[1] for data, _ in parts)

    def widened(column: str, fill: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        blocks = []
        for data, row in parts:
            block = getattr(data, column)[row.examples]
            blocks.append(
                np.pad(block, ((0, 0), (0, width - block.shape[1])), constant_values=fill)
            )
        return np.concatenate(blocks)

    negative_ids = widened("negative_ids", -1)
    present = negative_ids >= 0
    slots = np.where(present, np.cumsum(present).reshape(present.shape) - 1, -1)

    text_ids = np.concatenate([query_ids, positive_ids, negative_ids[present]])
    owner_tasks = [tasks[i] for i in np.nonzero(present)[0]]
    sides = [(task, True) for task in tasks] + [(task, False) for task in tasks + owner_tasks]
    task_ids = [INSTRUCTIONS.index(instruction(task, is_query=side)) for task, side in sides]
    roles = np.concatenate(
        [
            np.full(len(tasks), QUERY),
            np.full(len(tasks), POSITIVE),
            NEGATIVE + np.nonzero(present)[1],
        ]
    )

    sequences = [corpus.store.tokens(int(i)) for i in text_ids]
    lengths = np.array([0, *map(len, sequences)], dtype=np.int64)
    tokens = TokenBatch(
        torch.from_numpy(np.concatenate(sequences).astype(np.int64)),
        torch.from_numpy(lengths.cumsum()),
        torch.tensor(task_ids, dtype=torch.int64),
        torch.from_numpy(roles.astype(np.int64)),
    )

    def column(name: str) -> Tensor:
        return torch.from_numpy(
            np.concatenate([getattr(data, name)[row.examples] for data, row in parts])
        )

    scored = all(data.scores is not None for data, _ in parts)
    return TrainingBatch(
        tokens=tokens,
        tasks=tuple(tasks),
        query_keys=column("query_keys"),
        positive_keys=column("positive_keys"),
        negative_keys=torch.from_numpy(widened("negative_keys", -1)),
        negative_slots=torch.from_numpy(slots.astype(np.int64)),
        scores=column("scores").to(torch.float32) if scored else None,
    )
