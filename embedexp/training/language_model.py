"""Learning language: a head's loss over the tokens of the global batch, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from embedexp import routing
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.tasks import INSTRUCTIONS, POSITIVE
from embedexp.loss.language import IGNORED, TokenLoss, token_cross_entropy
from embedexp.routing import RouterTotals

from .chunks import chunks, rounds
from .finite import require_finite
from .objective import StepOutput
from .synchronise import sum_over_ranks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from embedexp.backbone.heads import LanguageHead
    from embedexp.config.schema.routing import Routing
    from embedexp.embedding import Embedder
    from embedexp.routing import RouterOutput

    from .language_batches import LanguageBatch
    from .objective import Step


class LanguageObjective(nn.Module):
    """Predicts the labels of a batch, and adds what routing does.

    The loss is the mean over the predictions of the global batch, in nats; `terms` name it and add
    the share of predictions that were right, and the perplexity. It is a sum over tokens, so that
    chunks of at most `chunk_tokens` tokens, and ranks, add up to the same gradient in one pass;
    only where routers are balanced do several chunks need another one before, to count.
    """

    def __init__(
        self,
        name: str,
        embedder: Embedder,
        head: LanguageHead,
        routing: Routing,
        chunk_tokens: int | None,
    ) -> None:
        super().__init__()
        self.name, self.embedder, self.head = name, embedder, head
        self.routing, self.chunk_tokens = routing, chunk_tokens

    def step(self, batch: LanguageBatch, step: Step) -> StepOutput:
        """Forward and backward of one optimizer step.

        Raises:
            NonFiniteLossError: the loss is NaN or infinite.
        """
        layout = batch.layout
        own = chunks(layout.lengths[layout.members(layout.rank)], self.chunk_tokens)
        count = rounds(layout, self.chunk_tokens)
        pieces = [_Chunk(batch, own[i] if i < len(own) else None, i) for i in range(count)]
        balanced = routing_adds(self.routing)
        totals = self._count(pieces, step) if balanced and count > 1 else None

        parts: list[RouterTotals] = []
        sums = torch.zeros(2, dtype=torch.float64, device=batch.labels.device)
        for piece in pieces:
            result, router = self._predict(piece, step, graph=True)
            sums += torch.stack([result.total.detach().double(), result.correct.double()])
            loss = result.total * (step.world / max(batch.predictions, 1))
            if router is not None:
                parts.append(piece.totals(router))
                if balanced and count == 1:
                    totals = _summed(parts, step.world)
                for term in routing.auxiliary_terms(self.routing, router, totals).values():
                    # A sum over ranks, of which the strategies take the mean.
                    loss = loss + term * (0.0 if piece.empty else step.world)
            step.backward([loss], last=piece.number == count - 1)

        sums = sum_over_ranks(sums, step.world) / max(batch.predictions, 1)
        totals = totals or (_summed(parts, step.world) if parts else None)
        mean = sums[0].float()
        added = routing.auxiliary_values(self.routing, totals)
        total = mean + sum(added.values())
        require_finite(total, "loss", step.number)
        terms = {self.name: mean, "accuracy": sums[1].float(), "perplexity": mean.exp()}
        return StepOutput(total.float(), terms | added, totals)

    @torch.no_grad()
    def measure(self, batch: LanguageBatch) -> TokenLoss:
        """Sums over the predictions of a batch of one process, without a gradient."""
        hidden, _ = self.embedder.hidden(batch.tokens)
        return self._loss(hidden, batch.labels)

    def _count(self, pieces: list[_Chunk], step: Step) -> RouterTotals | None:
        """What the routers do with the global batch, before anything is learned from it."""
        parts = []
        for piece in pieces:
            router = self._predict(piece, step, graph=False)[1]
            if router is None:
                return None
            parts.append(piece.totals(router))
        return _summed(parts, step.world)

    def _predict(
        self, piece: _Chunk, step: Step, *, graph: bool
    ) -> tuple[TokenLoss, RouterOutput | None]:
        step.draw(piece.number)
        device = piece.labels.device.type
        # Autocast must not keep the casts of a pass without a graph for the one with it.
        autocast = torch.autocast(
            device, enabled=torch.is_autocast_enabled(device), cache_enabled=False
        )
        with torch.set_grad_enabled(graph), autocast:
            hidden, router = self.embedder.hidden(piece.tokens, step.alpha)
            return self._loss(hidden, piece.labels), router

    def _loss(self, hidden: Tensor, labels: Tensor) -> TokenLoss:
        """The loss of the labelled tokens, which alone go through the head."""
        places = torch.nonzero(labels != IGNORED).squeeze(1)
        targets = labels[places]

        def loss(features: Tensor, matrix: Tensor, bias: Tensor | None) -> TokenLoss:
            return token_cross_entropy(features, matrix, bias, targets)

        result: TokenLoss = self.head(hidden.index_select(0, places), self.embedder.model, loss)
        return result


def routing_adds(option: Routing) -> bool:
    """Whether routing adds losses, for which the step's totals must be known."""
    values = option.model_dump()
    return bool(values.get("balance_coefficient") or values.get("z_loss_coefficient"))


class _Chunk:
    """Sequences that go through the model at once: `index` among this rank's, None for none.

    A rank with fewer chunks reads one token without a label: collective operations inside the
    model need every rank.
    """

    def __init__(self, batch: LanguageBatch, index: NDArray[np.int64] | None, number: int) -> None:
        self.number, self.empty = number, index is None
        device = batch.labels.device
        if index is None:
            task = INSTRUCTIONS.index("search_document")
            self.tokens = TokenBatch.pack([[0]], [task], [POSITIVE]).to(device)
            self.labels = torch.full((1,), IGNORED, device=device)
        elif len(index) == len(batch.tokens):
            self.tokens, self.labels = batch.tokens, batch.labels
        else:
            self.tokens, self.labels = batch.select(torch.from_numpy(index).to(device))

    def totals(self, router: RouterOutput) -> RouterTotals:
        """What the routers did with the chunk."""
        found = RouterTotals.of(router)
        return found.nothing() if self.empty else found


def _summed(parts: list[RouterTotals], world: int) -> RouterTotals:
    own = sum(parts[1:], parts[0])
    return own.summed(lambda table: sum_over_ranks(table, world)) if world > 1 else own
