"""A training batch holds the right texts in the right places."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from embedexp.batching.collate import collate
from embedexp.batching.plan import Rows


class Store:
    """Text i is the tokens [i, i, ..] of length i % 3 + 1."""

    def tokens(self, i: int) -> np.ndarray:
        return np.full(i % 3 + 1, i, dtype=np.int32)


def dataset(task: str, first: int, negatives: list[list[int]], scores=None) -> SimpleNamespace:
    n = len(negatives)
    ids = np.array(negatives, dtype=np.int64).reshape(n, -1)
    return SimpleNamespace(
        task=task,
        query_ids=first + np.arange(n),
        positive_ids=first + 10 + np.arange(n),
        negative_ids=ids,
        query_keys=100 + first + np.arange(n),
        positive_keys=200 + first + np.arange(n),
        negative_keys=np.where(ids >= 0, ids + 300, -1),
        scores=scores,
    )


CORPUS = SimpleNamespace(
    store=Store(),
    datasets=[
        dataset("retrieval", 0, [[50, 51], [52, -1], [-1, -1]]),
        dataset("classification", 30, [[], [], []]),
    ],
)
ROWS = [
    Rows("retrieval", 0, np.array([1, 0, 2])),
    Rows("classification", 1, np.array([2])),
]


def texts(batch) -> list[int]:
    starts = batch.tokens.cu_seqlens[:-1]
    return batch.tokens.input_ids[starts].tolist()


def test_queries_then_positives_then_hard_negatives():
    batch = collate(CORPUS, ROWS)
    assert texts(batch) == [1, 0, 2, 32, 11, 10, 12, 42, 52, 50, 51]
    assert batch.tokens.roles.tolist() == [0] * 4 + [1] * 4 + [2, 2, 3]
    # search_query, search_document and classification are instruction tasks 0, 1 and 2
    assert batch.tokens.task_ids.tolist() == [0, 0, 0, 2, 1, 1, 1, 2, 1, 1, 1]
    assert batch.tasks == ("retrieval",) * 3 + ("classification",)
    assert batch.positive_keys.tolist() == [201, 200, 202, 232]


def test_ragged_hard_negatives_find_their_query():
    batch = collate(CORPUS, ROWS)
    vectors = torch.arange(11.0)[:, None]
    queries, positives, negatives, mask = batch.split(vectors)
    assert queries.flatten().tolist() == [0, 1, 2, 3]
    assert positives.flatten().tolist() == [4, 5, 6, 7]
    assert mask.tolist() == [[True, False], [True, True], [False, False], [False, False]]
    assert negatives.squeeze(-1).tolist() == [[8, 0], [9, 10], [0, 0], [0, 0]]
    assert batch.negative_keys.tolist() == [[352, -1], [350, 351], [-1, -1], [-1, -1]]


def test_without_hard_negatives_there_is_none():
    batch = collate(CORPUS, ROWS[1:])
    queries, _, negatives, mask = batch.split(torch.zeros(2, 5))
    assert (len(queries), negatives, mask, batch.scores) == (1, None, None, None)


def test_scores_are_there_when_every_example_has_one():
    scored = SimpleNamespace(
        store=Store(), datasets=[dataset("sts", 0, [[], []], scores=np.array([0.25, 1.0]))]
    )
    batch = collate(scored, [Rows("sts", 0, np.array([1, 0]))])
    assert batch.scores.tolist() == [1.0, 0.25]
