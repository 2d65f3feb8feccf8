"""Learning from embeddings: a loss over the vectors of the global batch, by a gradient cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn

from embedexp import routing
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.tasks import INSTRUCTIONS, QUERY, instruction
from embedexp.routing import RouterTotals

from .chunks import chunks, rounds
from .finite import require_finite
from .gather import gather
from .objective import Step, StepOutput
from .synchronise import backward, complete, sum_over_ranks, touched

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.routing import Routing
    from embedexp.embedding import Embedder
    from embedexp.embedding.output import Embeddings
    from embedexp.loss import LossOutput

    Observe = Callable[[TrainingBatch, Tensor, int], dict[str, float]]


class ContrastiveObjective(nn.Module):
    """Embeds a batch and takes the loss of its vectors, and what routing adds.

    `loss` is `(vectors [2q+m, d], batch) -> LossOutput` over the global batch, on every rank.
    With `chunk_tokens`, a rank's sequences are embedded in chunks of at most so many tokens, first
    without a graph; the loss gives each vector its gradient; then each chunk is embedded again,
    with the same dropout, and takes its vectors' gradients to the weights. So a batch needs the
    memory of one chunk and the gradient is the whole batch's (gradient cache, arXiv 2101.06983).
    Where one chunk holds all, it is embedded once. `observe(batch, vectors, step)` sees the vectors
    of each step's global batch.
    """

    def __init__(
        self,
        embedder: Embedder,
        loss: nn.Module,
        routing: Routing,
        chunk_tokens: int | None,
        observe: Observe | None = None,
    ) -> None:
        super().__init__()
        self.observe = observe
        self.embedder, self.loss = embedder, loss
        self.routing, self.chunk_tokens = routing, chunk_tokens

    def step(self, batch: TrainingBatch, step: Step) -> StepOutput:
        """Forward and backward of one optimizer step.

        Raises:
            NonFiniteLossError: the loss is NaN or infinite.
        """
        layout = batch.layout
        own = chunks(layout.lengths[layout.members(layout.rank)], self.chunk_tokens)
        count = rounds(layout, self.chunk_tokens)
        pieces = [_Chunk(batch, own[i] if i < len(own) else None, i) for i in range(count)]

        first = [self._embed(pieces[0], step, graph=count == 1)]
        for piece in pieces[1:]:
            first.append(self._embed(piece, step, graph=False))
        vectors = torch.cat([output.vectors.detach() for output in first])
        totals = _totals(pieces, first, step.world)
        kept = first[0] if count == 1 else None
        del first

        output, gradients, seen = self._loss(batch, pieces, vectors, step.number)
        terms = dict(output.terms) | routing.auxiliary_values(self.routing, totals)
        total = output.total + sum(terms[name] for name in terms.keys() - output.terms.keys())
        require_finite(total, "loss", step.number)

        for piece, gradient in zip(pieces, gradients, strict=True):
            last = piece.number == count - 1
            embedded = kept if kept is not None else self._embed(piece, step, graph=True)
            tensors, weights = self._terms(piece, embedded, gradient, totals, step.world)
            if last:
                zeros = touched(step.model, self.loss.parameters())
                tensors, weights = [*tensors, *zeros], [*weights, *([None] * len(zeros))]
            step.backward(tensors, weights, last=last)
        complete(self.loss.parameters())
        scalars = {name: value.detach() for name, value in terms.items()}
        return StepOutput(total.detach(), scalars, totals, seen)

    def _embed(self, piece: _Chunk, step: Step, *, graph: bool) -> Embeddings:
        step.draw(piece.number)
        device = piece.tokens.input_ids.device.type
        # Autocast must not keep the casts of a pass without a graph for the one with it.
        autocast = torch.autocast(
            device, enabled=torch.is_autocast_enabled(device), cache_enabled=False
        )
        with torch.set_grad_enabled(graph), autocast:
            embeddings: Embeddings = self.embedder(piece.tokens, step.alpha)
        return embeddings

    def _loss(
        self, batch: TrainingBatch, pieces: list[_Chunk], vectors: Tensor, step: int
    ) -> tuple[LossOutput, list[Tensor], dict[str, float] | None]:
        """The loss of the global batch, its gradient at the vectors of each chunk, what was seen.

        `vectors` are those of all chunks, placeholders included. The loss's own parameters get
        their gradients here.
        """
        real = [piece for piece in pieces if piece.index is not None]
        count = sum(len(cast("NDArray[np.int64]", piece.index)) for piece in real)
        order = np.concatenate(
            [np.empty(0, np.int64), *(p.index for p in real if p.index is not None)]
        )
        rows = torch.from_numpy(order).to(vectors.device)
        local = torch.empty_like(vectors[:count]).index_copy_(0, rows, vectors[:count])
        local.requires_grad_()
        everyones = gather(local, batch.layout)
        output: LossOutput = self.loss(everyones, batch)
        seen = None if self.observe is None else self.observe(batch, everyones.detach(), step)
        if not output.total.requires_grad:  # nothing to learn from this batch
            zeros = [torch.zeros_like(vectors[: len(piece.tokens)]) for piece in pieces]
            return output, zeros, seen
        backward(self.loss, [output.total], last=True)
        at = torch.zeros_like(local) if local.grad is None else local.grad
        return output, [piece.rows(at) for piece in pieces], seen

    def _terms(
        self,
        piece: _Chunk,
        embedded: Embeddings,
        gradient: Tensor,
        totals: RouterTotals | None,
        world: int,
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """From where a chunk's backward starts, and with which gradients."""
        tensors, weights = [embedded.vectors], [gradient]
        added = routing.auxiliary_terms(self.routing, embedded.router, totals)
        for term in added.values():
            tensors.append(term)
            # A sum over ranks, of which the strategies take the mean; placeholders add nothing.
            weights.append(torch.full_like(term, 0.0 if piece.index is None else world))
        return tensors, cast("list[Tensor | None]", weights)


class _Chunk:
    """Sequences that are embedded at once: `index` among this rank's, None for a placeholder.

    Ranks with fewer chunks embed a placeholder instead, one token of a task of the batch, whose
    gradient is zero: collective operations inside the model need every rank.
    """

    def __init__(self, batch: TrainingBatch, index: NDArray[np.int64] | None, number: int) -> None:
        self.index, self.number = index, number
        device = batch.tokens.input_ids.device
        if index is None:
            task = INSTRUCTIONS.index(instruction(batch.tasks[0], is_query=True))
            self.tokens = TokenBatch.pack([[0]], [task], [QUERY]).to(device)
        elif len(index) == len(batch.tokens):
            self.tokens = batch.tokens
        else:
            self.tokens = batch.tokens.select(torch.from_numpy(index).to(device))

    def rows(self, values: Tensor) -> Tensor:
        """This chunk's rows of this rank's `values [n, d]`; zeros for a placeholder."""
        if self.index is None:
            return values.new_zeros(1, values.shape[1])
        return values.index_select(0, torch.from_numpy(self.index).to(values.device))


def _totals(pieces: list[_Chunk], outputs: list[Embeddings], world: int) -> RouterTotals | None:
    """What the routers did with the global batch; None without routers."""
    parts = []
    for piece, output in zip(pieces, outputs, strict=True):
        if output.router is None:
            return None
        totals = RouterTotals.of(output.router)
        parts.append(totals.nothing() if piece.index is None else totals)
    own = sum(parts[1:], parts[0])
    return own.summed(lambda table: sum_over_ranks(table, world)) if world > 1 else own
