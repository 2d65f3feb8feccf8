"""InfoNCE with a declared denominator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .output import LossOutput
from .precision import exact, unit

if TYPE_CHECKING:
    from collections.abc import Collection

    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import InfoNCE

TERMS = (
    "other_positives",
    "own_hard_negatives",
    "other_hard_negatives",
    "other_queries",
    "other_documents",
)
"""What may stand in the denominator beside the query's own positive."""


@exact
def info_nce(
    queries: Tensor,
    positives: Tensor,
    hard_negatives: Tensor | None = None,
    *,
    temperature: float | Tensor,
    denominator: Collection[str],
    false_negative_margin: float | None = None,
    query_ids: Tensor | None = None,
    positive_ids: Tensor | None = None,
    hard_negative_ids: Tensor | None = None,
    mask: Tensor | None = None,
    shared_ids: bool = False,
) -> Tensor:
    """Mean over queries of -log(e^(s(q,p)/t) / (e^(s(q,p)/t) + the terms of `denominator`)).

    s is the cosine, t the `temperature`. Shapes: `queries [n, d]`, `positives [n, d]`,
    `hard_negatives [n, h, d]`, of which `mask [n, h]` (bool) tells the real ones. `denominator` is
    a subset of `TERMS`: other_positives q_i·p_j, own_hard_negatives q_i·n_ik, other_hard_negatives
    q_i·n_jk, other_queries q_i·q_j and other_documents p_i·p_j (j != i).

    A term is left out where it would be a false negative: its document has the same id as the
    query's positive (`positive_ids [n]`, `hard_negative_ids [n, h]`), it belongs to the same query
    (`query_ids [n]`), or its cosine is above the positive's by more than `false_negative_margin`.
    With `shared_ids`, ids of queries and of documents are of one kind, and a text is no negative
    of itself either: pairs (a, b) and (b, c) do not push b from b.
    No gradient flows through that decision. Arithmetic is in float32 at least.

    Raises:
        ValueError: for an unknown term.

    Source: the InfoNCE losses of Nomic Embed v2 (other positives and hard negatives), MoTE (other
    positives only), Llama-Embed-Nemotron-8B (own hard negatives only) and Qwen3-Embedding (the
    same-tower terms and the margin).
    """
    unknown = sorted(set(denominator) - set(TERMS))
    if unknown:
        raise ValueError(f"unknown denominator term {unknown[0]}; there are {', '.join(TERMS)}")
    count = queries.shape[0]
    queries, positives = unit(queries), unit(positives)
    positive_q = (queries * positives).sum(-1)
    others = ~torch.eye(count, dtype=torch.bool, device=queries.device)
    if query_ids is not None:
        others &= query_ids[:, None] != query_ids[None, :]
    if positive_ids is not None:
        others &= positive_ids[:, None] != positive_ids[None, :]

    itself = torch.zeros_like(others)  # [i, j]: query i is the same text as positive j
    if shared_ids and query_ids is not None and positive_ids is not None:
        itself = query_ids[:, None] == positive_ids[None, :]

    cosines: list[Tensor] = [positive_q[:, None]]
    keep: list[Tensor] = [torch.ones_like(positive_q, dtype=torch.bool)[:, None]]
    in_batch = {
        "other_positives": (queries, positives, itself),
        "other_queries": (queries, queries, itself.T),  # query j is the positive of query i
        "other_documents": (positives, positives, itself),  # positive j is query i
    }
    for term, (rows, columns, false) in in_batch.items():
        if term in denominator:
            cosines.append(rows @ columns.T)
            keep.append(others & ~false)

    owned = "own_hard_negatives" in denominator
    foreign = "other_hard_negatives" in denominator
    if hard_negatives is not None and hard_negatives.shape[1] and (owned or foreign):
        flat = unit(hard_negatives).flatten(0, 1)
        owner = torch.arange(count, device=queries.device).repeat_interleave(
            hard_negatives.shape[1]
        )
        mine = owner[None, :] == torch.arange(count, device=queries.device)[:, None]
        wanted = mine if not foreign else (torch.ones_like(mine) if owned else ~mine)
        if mask is not None:
            wanted = wanted & mask.flatten()[None, :]
        if hard_negative_ids is not None and positive_ids is not None:
            wanted = wanted & (hard_negative_ids.flatten()[None, :] != positive_ids[:, None])
        if shared_ids and hard_negative_ids is not None and query_ids is not None:
            wanted = wanted & (hard_negative_ids.flatten()[None, :] != query_ids[:, None])
        cosines.append(queries @ flat.T)
        keep.append(wanted)

    scores, kept = torch.cat(cosines, 1), torch.cat(keep, 1)
    if false_negative_margin is not None:
        near = scores.detach() > positive_q.detach()[:, None] + false_negative_margin
        kept = kept & ~near
    logits = (scores / temperature).masked_fill(~kept, float("-inf"))
    return (logits.logsumexp(1) - positive_q / temperature).mean()


class InfoNCELoss(nn.Module):
    """InfoNCE over a training batch."""

    def __init__(
        self, temperature: float, denominator: Collection[str], margin: float | None = None
    ) -> None:
        super().__init__()
        self.temperature, self.denominator, self.margin = temperature, tuple(denominator), margin

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Loss of `vectors [2q+m, d]`, the embeddings of `batch.tokens`."""
        queries, positives, hard_negatives, mask = batch.split(vectors)
        value = info_nce(
            queries,
            positives,
            hard_negatives,
            temperature=self.temperature,
            denominator=self.denominator,
            false_negative_margin=self.margin,
            query_ids=batch.query_keys,
            positive_ids=batch.positive_keys,
            hard_negative_ids=batch.negative_keys,
            mask=mask,
            shared_ids=True,
        )
        return LossOutput(value, {"infonce": value})


def build(option: InfoNCE) -> InfoNCELoss:
    """The loss of `loss=infonce`."""
    return InfoNCELoss(option.temperature, option.denominator, option.false_negative_margin)
