"""InfoNCE with a declared denominator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from .false_negatives import Agreement, Exclusion, OtherAnswers
from .output import LossOutput
from .precision import exact
from .tiles import Block, Direction, OwnBlock, Tower, softmax_loss

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from embedexp.batching.collate import TrainingBatch
    from embedexp.config.schema.loss import InfoNCE

    from .false_negatives import Reversible

TERMS = (
    "other_positives",
    "own_hard_negatives",
    "other_hard_negatives",
    "other_queries",
    "other_documents",
)
"""What may stand in the denominator beside the query's own positive."""

DIRECTIONS = ("query_to_document", "document_to_query")
"""Who looks for whom."""


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
    directions: Sequence[str] = ("query_to_document",),
) -> Tensor:
    """Mean over queries of -log(e^(s(q,p)/t) / (e^(s(q,p)/t) + the terms of `denominator`)).

    s is the cosine, t the `temperature`, a number or a tensor of one element, which then gets a
    gradient. Shapes: `queries [n, d]`, `positives [n, d]`, `hard_negatives [n, h, d]`, of which
    `mask [n, h]` (bool) tells the real ones. `denominator` is a subset of `TERMS`: other_positives
    q_i·p_j, own_hard_negatives q_i·n_ik, other_hard_negatives q_i·n_jk, other_queries q_i·q_j and
    other_documents p_i·p_j (j != i).

    A term is left out where it would be a false negative: its document has the same id as a
    positive of the same query (`query_ids [n]`, `positive_ids [n]`, `hard_negative_ids [n, h]`), in
    whichever row of the batch that positive stands, its row has the same query, or its cosine is
    above that of the row's own pair by more than `false_negative_margin`. With `shared_ids`, ids of
    queries and of documents are of one kind, and a text is no negative of itself either: pairs
    (a, b) and (b, c) do not push b from b. Ids may have several columns, `[n, c]` and `[n, h, c]`:
    two texts are the same if they agree in any column, and -1 agrees with nothing. No gradient
    flows through these decisions.

    `directions` names one or both of `DIRECTIONS`; the value is their mean. document_to_query is
    the same loss with queries and positives in each other's place: the queries are the candidates,
    other_documents takes the place of other_queries, and hard negatives, which answer no query,
    take no part.

    Memory beyond the gradients does not grow with n². Arithmetic is in float32 at least.

    Raises:
        ValueError: for an unknown term or direction, or a direction with no term.

    Source: the InfoNCE losses of Nomic Embed v2 (other positives and hard negatives), MoTE (other
    positives only), Llama-Embed-Nemotron-8B (own hard negatives only) and Qwen3-Embedding (the
    same-tower terms and the margin).
    """
    count = len(queries)
    towers = [Tower(0, 0, count), Tower(1, 0, count)]
    sources = [queries, positives]
    owner = torch.empty(0, dtype=torch.int64, device=queries.device)
    keys = _Keys(_columns(query_ids, 1), _columns(positive_ids, 1), None, shared_ids)
    if hard_negatives is not None and hard_negatives.shape[1]:
        real = hard_negatives.new_ones(hard_negatives.shape[:2], dtype=torch.bool)
        real = real if mask is None else mask
        owner = real.nonzero()[:, 0]
        every = mask is None
        sources.append(hard_negatives.flatten(0, 1) if every else hard_negatives[real])
        towers.append(Tower(2, 0, len(owner)))
        negative_ids = _columns(hard_negative_ids, 2)
        keys = replace(keys, negatives=None if negative_ids is None else negative_ids[real])
    return _loss(sources, towers, owner, keys, temperature, denominator,
                 false_negative_margin, directions)  # fmt: skip


def _columns(ids: Tensor | None, without: int) -> Tensor | None:
    """Ids with a last dimension of columns; those `without` one get it."""
    return ids[..., None] if ids is not None and ids.ndim == without else ids


@dataclass(frozen=True)
class _Keys:
    """Keys `[n, c]` of queries and positives and `[m, c]` of hard negatives."""

    queries: Tensor | None
    positives: Tensor | None
    negatives: Tensor | None
    shared: bool

    def swapped(self) -> _Keys:
        """With queries and positives in each other's place."""
        return _Keys(self.positives, self.queries, None, self.shared)

    def in_batch(self) -> list[Exclusion]:
        """Rows of one query, or of one document, hold no negatives for each other."""
        return [
            *Agreement.between(self.queries, self.queries),
            *Agreement.between(self.positives, self.positives),
        ]

    def answers(self, candidates: Tensor | None) -> list[Exclusion]:
        """Candidates that are a positive of the row's query, or the query itself."""
        itself = Agreement.between(self.queries, candidates) if self.shared else []
        return [*itself, *OtherAnswers.between(self.queries, self.positives, candidates)]


def _loss(
    sources: Sequence[Tensor],
    towers: Sequence[Tower],
    owner: Tensor,
    keys: _Keys,
    temperature: float | Tensor,
    denominator: Collection[str],
    margin: float | None,
    directions: Sequence[str],
) -> Tensor:
    """The loss of `towers`: queries, positives and, if any, hard negatives of `owner [m]`."""
    for kind, names, known in (("denominator term", denominator, TERMS),
                               ("direction", directions, DIRECTIONS)):  # fmt: skip
        if unknown := sorted(set(names) - set(known)):
            raise ValueError(f"unknown {kind} {unknown[0]}; there are {', '.join(known)}")
    if not directions or ("document_to_query" in directions and not _in_batch(denominator)):
        raise ValueError("document_to_query needs a term of the batch, such as other_positives")
    queries, positives, *rest = towers
    planned = []
    if "document_to_query" in directions:
        back = _blocks(positives, queries, keys.swapped(), denominator)
        planned.append(Direction(positives, queries, tuple(back)))
    if "query_to_document" in directions:
        blocks: list[Block] = []
        own: OwnBlock | None = None
        if rest and len(rest[0]):
            blocks, own = _hard(queries, rest[0], owner, keys, denominator)
        blocks = _blocks(queries, positives, keys, denominator) + blocks
        planned.append(Direction(queries, positives, tuple(blocks), own))
    if len(planned) == 2 and "other_positives" in denominator:
        planned = _shared(*planned)
    if not isinstance(temperature, Tensor):
        temperature = torch.tensor(temperature, dtype=torch.float64)
    return softmax_loss(planned, sources, temperature.to(sources[0].device), margin)


def _shared(back: Direction, forth: Direction) -> list[Direction]:
    """Directions whose first blocks, other_positives, are each other's transpose."""
    first, *others = back.blocks
    block, *more = forth.blocks
    # What follows from the keys of the batch can be asked both ways.
    block = replace(block, reverse=cast("Sequence[Reversible]", first.exclusions))
    return [
        replace(back, blocks=(replace(first, deferred=True), *others)),
        replace(forth, blocks=(block, *more)),
    ]


def _in_batch(denominator: Collection[str]) -> bool:
    return any("hard" not in term for term in denominator)


def _blocks(
    anchors: Tower, targets: Tower, keys: _Keys, denominator: Collection[str]
) -> list[Block]:
    """The terms of the other rows of the batch."""
    found, batch = [], keys.in_batch() if _in_batch(denominator) else []
    documents = {"other_positives": anchors, "other_documents": targets}
    wanted = [rows for term, rows in documents.items() if term in denominator]
    exclusions = [*batch, *keys.answers(keys.positives)] if wanted else []
    found += [Block(rows, targets, exclusions) for rows in wanted]
    if "other_queries" in denominator:  # query j may be the positive of query i
        of_positive = Agreement.between(keys.positives, keys.queries) if keys.shared else []
        siblings = (
            OtherAnswers.between(keys.queries, keys.positives, keys.queries) if keys.shared else []
        )
        found.append(Block(anchors, anchors, [*batch, *of_positive, *siblings]))
    return found


def _hard(
    queries: Tower, negatives: Tower, owner: Tensor, keys: _Keys, denominator: Collection[str]
) -> tuple[list[Block], OwnBlock | None]:
    """The terms of hard negatives: all in one block, or those of the row's own in a table."""
    owned, foreign = "own_hard_negatives" in denominator, "other_hard_negatives" in denominator
    if not owned and not foreign:
        return [], None
    false: list[Exclusion] = [
        *Agreement.between(keys.positives, keys.negatives),
        *keys.answers(keys.negatives),
    ]
    if foreign:
        if not owned:
            false.append(_Owned(owner))
        return [Block(queries, negatives, false, diagonal=False)], None
    sizes = torch.bincount(owner, minlength=len(queries))
    real = torch.arange(int(sizes.max()), device=owner.device) < sizes[:, None]
    table = torch.zeros(real.shape, dtype=torch.int64, device=owner.device)
    table[real] = owner.argsort(stable=True)
    keep = real
    for exclusion in false:
        keep = keep & ~exclusion.own(table)
    return [], OwnBlock(negatives, table, keep)


class _Owned:
    """Leaves out a row's own hard negatives."""

    def __init__(self, owner: Tensor) -> None:
        self._owner = owner

    def __call__(self, rows: slice) -> Tensor:
        """`[rows, m]`, True where the row owns the candidate."""
        return (
            torch.arange(rows.start, rows.stop, device=self._owner.device)[:, None] == self._owner
        )

    def own(self, table: Tensor) -> Tensor:
        """`[n, h]`, True everywhere."""
        return torch.ones_like(table, dtype=torch.bool)


class InfoNCELoss(nn.Module):
    """InfoNCE over a training batch.

    With `min_temperature` the temperature is learned, as the logarithm of its inverse in the
    parameter `log_scale [1]`, and never falls below it (CLIP: 0.01).
    """

    def __init__(
        self,
        temperature: float,
        denominator: Collection[str],
        margin: float | None = None,
        directions: Sequence[str] = ("query_to_document",),
        min_temperature: float | None = None,
    ) -> None:
        super().__init__()
        self.temperature, self.denominator, self.margin = temperature, tuple(denominator), margin
        self.directions, self.min_temperature = tuple(directions), min_temperature
        if min_temperature is not None:
            self.log_scale = nn.Parameter(torch.tensor([-log(temperature)]))

    def current_temperature(self) -> float | Tensor:
        """What divides the cosines now; a tensor `[1]` with a gradient where it is learned."""
        if self.min_temperature is None:
            return self.temperature
        with torch.no_grad():  # the value itself, so that a gradient can bring it back at once
            self.log_scale.clamp_(max=-log(self.min_temperature))
        return (-self.log_scale).exp()

    @exact
    def _value(self, vectors: Tensor, batch: TrainingBatch, temperature: float | Tensor) -> Tensor:
        count = len(batch)
        slots = batch.negative_slots
        real = slots >= 0
        owner, order = real.nonzero()[:, 0], slots[real]
        sources, start = [vectors], (0, 2 * count)
        if not torch.equal(order, torch.arange(len(vectors) - 2 * count, device=order.device)):
            sources, start = [vectors, vectors[2 * count :][order]], (1, 0)
        towers = [
            Tower(0, 0, count),
            Tower(0, count, 2 * count),
            Tower(start[0], start[1], start[1] + len(order)),
        ]
        keys = _Keys(
            _columns(batch.query_keys, 1),
            _columns(batch.positive_keys, 1),
            _columns(batch.negative_keys[real], 1),
            shared=True,
        )
        return _loss(sources, towers, owner, keys, temperature, self.denominator,
                     self.margin, self.directions)  # fmt: skip

    def forward(self, vectors: Tensor, batch: TrainingBatch) -> LossOutput:
        """Loss of `vectors [2q+m, d]`, the embeddings of `batch.tokens`."""
        temperature = self.current_temperature()
        value = self._value(vectors, batch, temperature)
        terms = {"infonce": value}
        if isinstance(temperature, Tensor):
            terms["temperature"] = temperature.detach().squeeze()
        return LossOutput(value, terms)


def build(option: InfoNCE) -> InfoNCELoss:
    """The loss of `loss=infonce`, and of the others that differ from it in their values only."""
    return InfoNCELoss(
        option.temperature,
        option.denominator,
        option.false_negative_margin,
        option.directions,
        option.min_temperature if option.learnable_temperature else None,
    )
