"""Hand-made batches, and losses as float64 loops over their definitions."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import torch

from embedexp.batching.collate import TrainingBatch
from embedexp.batching.layout import Layout
from embedexp.batching.token_batch import TokenBatch

Keys = list[tuple[int, ...]]


def batch_of(
    query_keys: Any,
    positive_keys: Any,
    negative_keys: list[list[Any]] | None = None,
    tasks: list[str] | None = None,
    scores: list[float] | None = None,
    teacher_scores: list[list[float]] | None = None,
) -> TrainingBatch:
    """A batch of one process with these keys; ragged hard negatives in the order of queries."""
    count = len(query_keys)
    ragged = negative_keys or [[] for _ in range(count)]
    width = max(map(len, ragged))
    columns = len(query_keys[0])
    slots = torch.full((count, width), -1)
    negatives = torch.full((count, width, columns), -1)
    place = 0
    for i, row in enumerate(ragged):
        for k, key in enumerate(row):
            slots[i, k], negatives[i, k], place = place, torch.tensor(key), place + 1
    total = 2 * count + place
    return TrainingBatch(
        tokens=TokenBatch.pack([[1]] * total, [0] * total, [0] * total),
        tasks=tuple(tasks or ["retrieval"] * count),
        query_keys=torch.tensor(query_keys),
        positive_keys=torch.tensor(positive_keys),
        negative_keys=negatives,
        negative_slots=slots,
        scores=None if scores is None else torch.tensor(scores),
        teacher_scores=None if teacher_scores is None else torch.tensor(teacher_scores),
        examples=torch.stack([torch.zeros(count, dtype=torch.int64), torch.arange(count)], 1),
        layout=Layout.single(np.ones(total, np.int64)),
    )


def agree(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two texts are the same in a column."""
    return any(x == y and x >= 0 for x, y in zip(a, b, strict=True))


def loop_info_nce(
    queries: torch.Tensor,
    positives: torch.Tensor,
    negatives: list[torch.Tensor],
    keys: tuple[Keys, Keys, list[Keys]],
    temperature: float | torch.Tensor,
    denominator: list[str],
    margin: float | None = None,
    directions: tuple[str, ...] = ("query_to_document",),
) -> torch.Tensor:
    """InfoNCE with shared ids, candidate by candidate; `negatives[i] [h_i, d]` may be empty."""
    q, p = (torch.nn.functional.normalize(x.double(), dim=1) for x in (queries, positives))
    n = [torch.nn.functional.normalize(x.double(), dim=1) for x in negatives]
    total = torch.zeros((), dtype=torch.float64)
    for direction in directions:
        if direction == "document_to_query":
            total = total + _one_way(p, q, None, (keys[1], keys[0], []), temperature, denominator,
                                     margin)  # fmt: skip
        else:
            total = total + _one_way(q, p, n, keys, temperature, denominator, margin)
    return total / len(directions)


def _one_way(q, p, n, keys, temperature, denominator, margin):
    query_keys, positive_keys, negative_keys = keys
    rows = range(len(q))
    total = 0.0
    for i in rows:
        siblings = [r for r in rows if r == i or agree(query_keys[r], query_keys[i])]
        answers = [positive_keys[r] for r in siblings]

        def false(key, answers=answers, i=i):
            return agree(key, query_keys[i]) or any(agree(key, answer) for answer in answers)

        own = q[i] @ p[i]
        terms = []
        for j in rows:
            if j == i or agree(query_keys[j], query_keys[i]):
                continue
            if agree(positive_keys[j], positive_keys[i]):
                continue
            if not false(positive_keys[j]):
                terms += [q[i] @ p[j]] if "other_positives" in denominator else []
                terms += [p[i] @ p[j]] if "other_documents" in denominator else []
            if not false(query_keys[j]) and "other_queries" in denominator:
                terms.append(q[i] @ q[j])
        for j in rows if n is not None else ():
            which = "own_hard_negatives" if j == i else "other_hard_negatives"
            if which in denominator:
                terms += [
                    q[i] @ vector
                    for vector, key in zip(n[j], negative_keys[j], strict=True)
                    if not false(key)
                ]
        terms = [t for t in terms if margin is None or t.item() <= own.item() + margin]
        logits = torch.stack([own, *terms]) / temperature
        total = total + logits.logsumexp(0) - logits[0]
    return total / len(q)


def mat(n: int, d: int, phase: float) -> torch.Tensor:
    """The matrix of the golden values: sin(phase + 1.7i + .9j + .31ij) in float64."""
    i = torch.arange(n, dtype=torch.float64)[:, None]
    j = torch.arange(d, dtype=torch.float64)[None]
    return torch.sin(phase + 1.7 * i + 0.9 * j + 0.31 * i * j)


def every_subset(terms: tuple[str, ...]) -> list[list[str]]:
    """All non-empty subsets."""
    chosen = product([False, True], repeat=len(terms))
    return [[t for t, c in zip(terms, which, strict=True) if c] for which in chosen if any(which)]
