"""Hard negatives from teachers' scores: the search, the rules, and several teachers together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from embedexp.config.errors import UserError

from .combination import combine
from .forbidden import as_columns, forbid
from .rules import RULES, Rules
from .search import Hits, Tile
from .teachers import Embeddings
from .vectors import Normalised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from .forbidden import Forbidden
    from .search import Vectors
    from .teachers import Teacher

    Rescore = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
    """Numbers of queries and documents, `[p]` each, to scores `[p]`."""

Combination = Literal["union", "agreement"]
BLOCK = 16384  # queries searched before their candidates are reduced to negatives


@dataclass
class Mined:
    """Negatives of r rows: a row is a query, or with `reference="each"` a query and a positive.

    Attributes:
        query: Number of the row's query, `[r]`.
        positive: Document that the row's negatives were held against, -1 for all of the query's.
        documents: Numbers of the negatives, best first, `[r, count]`, -1 where there are fewer.
        scores: The teacher's (the first one's) scores, float64, NaN there.
        ranks: Places among the candidates of the teacher that found it, from 0; -1 there.
        positives: For each query the numbers of its positives.
        positive_scores: For each query their scores.
        nearest: The first teacher's best candidate whatever the rules, -1 where there is none.
        nearest_scores: Its score.
        considered: Candidates that the rules were asked about.
        refused: Of them, by the first rule that refused it.
    """

    query: NDArray[np.int64]
    positive: NDArray[np.int64]
    documents: NDArray[np.int64]
    scores: NDArray[np.float64]
    ranks: NDArray[np.int64]
    positives: list[NDArray[np.int64]]
    positive_scores: list[NDArray[np.float64]]
    nearest: NDArray[np.int64]
    nearest_scores: NDArray[np.float64]
    considered: int = 0
    refused: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))

    @property
    def negatives(self) -> list[list[int]]:
        """The negatives of each row, without filling."""
        return [row[row >= 0].tolist() for row in self.documents]


def mine(
    queries: Vectors,
    documents: Vectors,
    positives: Sequence[Sequence[int]],
    *,
    count: int,
    normalize: bool = True,
    query_keys: ArrayLike | None = None,
    document_keys: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    tile: Tile | None = None,
    **rules: Any,
) -> Mined:
    """Hard negatives of each query from one teacher's vectors.

    Never returned: a query's positives, documents that agree with one of them or with the query in
    the key of any column (exact duplicates, siblings), and a second document with the first key of
    another. Where fewer candidates pass the rules, the list is shorter.

    Args:
        queries: `[n, d]`, an array or memory map.
        documents: `[m, d]`.
        positives: Numbers of the documents that belong to each query.
        count: Negatives per row at most.
        normalize: Score by cosine; else by dot product.
        query_keys: `[n]` or `[n, c]` integers, -1 for none: hash of the text, of the group, ...
        document_keys: `[m]` or `[m, c]`, comparable with those of the queries.
        seeds: `[n]`, for `sampling="random"`; by default the query's number.
        tile: How much is compared at once.
        **rules: Further fields of `Rules`, such as `percent_of_positive=0.95`.

    Raises:
        UserError: shapes or numbers that do not fit, or rules that cannot be met.
    """
    if not isinstance(queries, np.ndarray) and not hasattr(queries, "shape"):
        queries = np.asarray(queries)
    if not isinstance(documents, np.ndarray) and not hasattr(documents, "shape"):
        documents = np.asarray(documents)
    if queries.shape[1:] != documents.shape[1:] or len(queries.shape) != 2:
        raise UserError(
            f"queries are {list(queries.shape)} and documents {list(documents.shape)}",
            hint="give vectors [n, d] and [m, d] of the same teacher",
        )
    left, right = (
        (Normalised(queries), Normalised(documents)) if normalize else (queries, documents)
    )
    return mine_with(
        [Embeddings(left, right, tile or Tile())],
        queries.shape[0],
        documents.shape[0],
        positives,
        [Rules(count, **rules)],
        query_keys=query_keys,
        document_keys=document_keys,
        seeds=seeds,
    )


def mine_with(
    teachers: Sequence[Teacher],
    queries: int,
    documents: int,
    positives: Sequence[Sequence[int]],
    rules: Sequence[Rules],
    *,
    combination: Combination = "union",
    rescore: Rescore | None = None,
    query_keys: ArrayLike | None = None,
    document_keys: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    forbidden: Forbidden | None = None,
    rows: slice | None = None,
    block: int = BLOCK,
    on_block: Callable[[int], None] | None = None,
) -> Mined:
    """Hard negatives of queries from one or several teachers, see `mine`.

    Args:
        teachers: Each finds candidates and holds its rules against its own scores.
        queries: How many there are.
        documents: How many there are.
        positives: Numbers of the documents that belong to each query.
        rules: Of each teacher; they agree in `count`, `reference` and `sampling`.
        combination: `union`: what any teacher chooses, in turns; `agreement`: what passes the rules
            of all, by the sum of ranks.
        rescore: Scores of a cross-encoder, in the place of the teachers' for all rules.
        query_keys: See `mine`.
        document_keys: See `mine`.
        seeds: See `mine`.
        forbidden: What queries must not meet, in the place of what follows from the keys.
        rows: Only these queries; the result counts all of them from 0 nevertheless.
        block: Queries whose candidates are in memory at once.
        on_block: Called with the number of queries done, before each block.

    Raises:
        UserError: a query without positives where a margin needs one; numbers out of range.
    """
    _check(queries, documents, positives, rules)
    barred = forbidden or forbid(positives, documents, query_keys, document_keys)
    chosen = _distinct(document_keys)
    if chosen is not None:
        barred = barred.documents(chosen)
        finding: list[Teacher] = [teacher.subset(chosen) for teacher in teachers]
    else:
        finding = list(teachers)
    given = np.arange(queries) if seeds is None else np.asarray(seeds)
    state = given.astype(np.uint64)
    parts: list[Mined] = []
    span = range(queries)[rows] if rows is not None else range(queries)
    for begin in range(span.start, span.stop, block):
        if on_block is not None:
            on_block(begin - span.start)
        part = slice(begin, min(span.stop, begin + block))
        lists = barred.rows(part)
        # As np.unique of each would give them; that takes a twentieth of all mining.
        known = [np.asarray(sorted(set(row)), np.int64) for row in positives[part]]
        found = [
            _numbered(teacher.hits(part, rule.last, lists), chosen)
            for teacher, rule in zip(finding, rules, strict=True)
        ]
        scorers = [rescore or teacher.scores for teacher in teachers]
        if rescore is not None:
            found = [_rescored(hits, begin, rescore) for hits in found]
        parts.append(_block(part, found, scorers, known, rules, combination, state))
    return _joined(parts, rules[0].count)


def _block(
    part: slice,
    found: Sequence[Hits],
    scorers: Sequence[Rescore],
    known: Sequence[NDArray[np.int64]],
    rules: Sequence[Rules],
    combination: Combination,
    seeds: NDArray[np.uint64],
) -> Mined:
    """Rows of the queries of a slice, from the candidates of each teacher."""
    counts = np.fromiter(map(len, known), np.int64, len(known))
    owners = np.repeat(np.arange(len(known)), counts)
    flat = np.concatenate([*known, np.empty(0, np.int64)])
    scores = [scorer(owners + part.start, flat) for scorer in scorers]
    starts = counts.cumsum() - counts
    if rules[0].reference == "each":
        query, positive, references = owners, flat, scores
        # A query without positives has no row.
    else:
        query, positive = np.arange(len(known)), np.full(len(known), -1)
        references = [_reduced(each, starts, counts, rules[0].reference) for each in scores]
    kept = combine(
        [Hits(hits.documents[query], hits.scores[query]) for hits in found],
        references,
        rules,
        combination,
        seeds[part][query],
        lambda rows, documents: scorers[0](query[rows] + part.start, documents),
    )
    return Mined(
        query + part.start,
        positive,
        kept.documents,
        kept.scores,
        kept.ranks,
        list(known),
        np.split(scores[0], starts[1:]) if len(known) else [],
        found[0].documents[query, 0],
        found[0].scores[query, 0],
        kept.considered,
        kept.refused,
    )


def _reduced(
    scores: NDArray[np.float64], starts: NDArray[np.int64], counts: NDArray[np.int64], how: str
) -> NDArray[np.float64]:
    """The lowest or highest score of each query's positives, infinite where there is none."""
    result = np.full(len(counts), np.inf)
    some = np.flatnonzero(counts)
    if len(some):
        reduce = np.minimum.reduceat if how == "min" else np.maximum.reduceat
        result[some] = reduce(scores, starts[some])
    return result


def _numbered(hits: Hits, chosen: NDArray[np.int64] | None) -> Hits:
    """Hits among all documents instead of the chosen ones."""
    if chosen is None:
        return hits
    return Hits(np.where(hits.documents >= 0, chosen[hits.documents], -1), hits.scores)


def _rescored(hits: Hits, begin: int, rescore: Rescore) -> Hits:
    """The same candidates with other scores, in their order."""
    from .search import best_first

    rows, columns = np.nonzero(hits.documents >= 0)
    scores = np.full(hits.scores.shape, -np.inf)
    scores[rows, columns] = rescore(rows + begin, hits.documents[rows, columns])
    return Hits(*best_first(hits.documents, scores))


def _distinct(document_keys: ArrayLike | None) -> NDArray[np.int64] | None:
    """The first document of each first key; None if all are distinct."""
    if document_keys is None:
        return None
    keys = as_columns(document_keys)[:, 0]
    _, first = np.unique(keys, return_index=True)
    keep = np.zeros(len(keys), np.bool_)
    keep[first] = True
    keep |= keys < 0
    return None if keep.all() else np.flatnonzero(keep)


def _check(
    queries: int, documents: int, positives: Sequence[Sequence[int]], rules: Sequence[Rules]
) -> None:
    if len(positives) != queries:
        raise UserError(f"positives of {len(positives)} queries were given for {queries} queries")
    for number, row in enumerate(positives):
        if len(row) and not (min(row) >= 0 and max(row) < documents):
            raise UserError(
                f"query {number} has a positive that is none of the {documents} documents"
            )
        if not len(row) and any(np.isfinite(rule.ceiling(np.ones(1)))[0] for rule in rules):
            raise UserError(
                f"query {number} has no positive that a margin could refer to",
                hint="leave such queries out, or mine without margins",
            )


def _joined(parts: Sequence[Mined], count: int) -> Mined:
    """One result of the results of all blocks."""

    def column(name: str, empty: NDArray[Any]) -> Any:
        return np.concatenate([empty, *(getattr(part, name) for part in parts)])

    numbers, wide = np.empty(0, np.int64), np.empty((0, count), np.int64)
    joined = Mined(
        column("query", numbers),
        column("positive", numbers),
        column("documents", wide),
        column("scores", np.empty((0, count))),
        column("ranks", wide),
        [row for part in parts for row in part.positives],
        [row for part in parts for row in part.positive_scores],
        column("nearest", numbers),
        column("nearest_scores", np.empty(0)),
    )
    for part in parts:
        joined.considered += part.considered
        for name, number in part.refused.items():
            joined.refused[name] += number
    return joined
