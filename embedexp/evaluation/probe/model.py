"""A backbone with a head for sequences, over packed batches."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from embedexp.batching.token_batch import TokenBatch
from embedexp.config.options import implementation
from embedexp.config.tasks import INSTRUCTIONS, QUERY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embedexp.embedding import Embedder

    from .examples import Examples

STANDARD_DEVIATION = 0.02


class ProbeModel(nn.Module):
    """The backbone, one vector of its final hidden states, and RoBERTa's classification head.

    The head is dropout, a layer of the backbone's width with tanh, dropout, and a linear layer to
    `outputs` numbers. Both layers start from N(0, 0.02) and biases of 0, drawn from torch's global
    generator. Texts of a pair are told apart by segment where the backbone has segments (BERT).
    """

    def __init__(self, embedder: Embedder, pooling: str, dropout: float, outputs: int) -> None:
        super().__init__()
        self.embedder = embedder
        self.pool = implementation("embedding", pooling).pool
        width = int(embedder.model.config.hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.dense, self.output = nn.Linear(width, width), nn.Linear(width, outputs)
        for layer in (self.dense, self.output):
            nn.init.normal_(layer.weight, std=STANDARD_DEVIATION)
            nn.init.zeros_(layer.bias)
        self._segmented = _has_segments(embedder.model)

    def forward(self, batch: TokenBatch, segments: Tensor) -> Tensor:
        """Scores `[n, outputs]` float32 of n packed sequences; `segments [t]`."""
        with self._telling(segments):
            hidden, _ = self.embedder.hidden(batch)
        vectors: Tensor = self.pool(hidden.float(), batch.cu_seqlens)
        inner = torch.tanh(self.dense(self.dropout(vectors)))
        scores: Tensor = self.output(self.dropout(inner))
        return scores.float()

    @contextmanager
    def _telling(self, segments: Tensor) -> Iterator[None]:
        """Let the backbone see the segments, which the embedder knows nothing of."""

        def add(_: nn.Module, arguments: Any, keywords: dict[str, Any]) -> Any:
            return arguments, {**keywords, "token_type_ids": segments[None]}

        if not self._segmented:
            yield
            return
        handle = self.embedder.model.register_forward_pre_hook(add, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()


def _has_segments(model: nn.Module) -> bool:
    kinds = getattr(model.config, "type_vocab_size", None) or 0
    return int(kinds) > 1 and "token_type_ids" in inspect.signature(model.forward).parameters


def pack(
    examples: Examples, index: Sequence[int], device: torch.device
) -> tuple[TokenBatch, Tensor]:
    """The sequences of the examples `index`, packed, and the segment of each token `[t]`."""
    rows = [i * examples.choices + choice for i in index for choice in range(examples.choices)]
    task = INSTRUCTIONS.index("classification")
    batch = TokenBatch.pack(
        [examples.tokens[row] for row in rows], [task] * len(rows), [QUERY] * len(rows)
    )
    flat = [segment for row in rows for segment in examples.segments[row]]
    return batch.to(device), torch.tensor(flat, dtype=torch.int64, device=device)
