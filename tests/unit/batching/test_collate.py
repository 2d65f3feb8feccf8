"""A training batch holds the right texts in the right places, on every rank."""

from __future__ import annotations

import time
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from embedexp.batching.collate import collate
from embedexp.batching.plan import Rows
from embedexp.data.store import TokenStore

NONE = -1
LENGTHS = np.arange(60) % 3 + 1
STORE = TokenStore(  # text i is the tokens [i, i, ..] of length i % 3 + 1
    np.repeat(np.arange(60), LENGTHS).astype(np.int32), np.r_[0, LENGTHS.cumsum()]
)


def keys(texts, group=NONE):
    texts = np.asarray(texts)
    return np.stack([texts, np.where(texts < 0, NONE, group)], -1)


def dataset(task: str, first: int, negatives: list[list[int]], scores=None, teacher=None):
    n = len(negatives)
    ids = np.array(negatives, dtype=np.int64).reshape(n, -1)
    return SimpleNamespace(
        task=task,
        query_ids=first + np.arange(n),
        positive_ids=first + 10 + np.arange(n),
        negative_ids=ids,
        query_keys=keys(100 + first + np.arange(n), 7),
        positive_keys=keys(200 + first + np.arange(n), 7),
        negative_keys=keys(np.where(ids >= 0, ids + 300, NONE)),
        scores=scores,
        teacher_scores=teacher,
    )


CORPUS = SimpleNamespace(
    store=STORE,
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
    assert batch.tokens.lengths.tolist() == [t % 3 + 1 for t in texts(batch)]
    assert batch.tokens.roles.tolist() == [0] * 4 + [1] * 4 + [2, 2, 3]
    # search_query, search_document and classification are instruction tasks 0, 1 and 2
    assert batch.tokens.task_ids.tolist() == [0, 0, 0, 2, 1, 1, 1, 2, 1, 1, 1]
    assert batch.tasks == ("retrieval",) * 3 + ("classification",)
    assert batch.positive_keys.tolist() == [[201, 7], [200, 7], [202, 7], [232, 7]]
    assert batch.examples.tolist() == [[0, 1], [0, 0], [0, 2], [1, 2]]


def test_ragged_hard_negatives_find_their_query():
    batch = collate(CORPUS, ROWS)
    vectors = torch.arange(11.0)[:, None]
    queries, positives, negatives, mask = batch.split(vectors)
    assert queries.flatten().tolist() == [0, 1, 2, 3]
    assert positives.flatten().tolist() == [4, 5, 6, 7]
    assert mask.tolist() == [[True, False], [True, True], [False, False], [False, False]]
    assert negatives.squeeze(-1).tolist() == [[8, 0], [9, 10], [0, 0], [0, 0]]
    absent = [NONE, NONE]
    assert batch.negative_keys.tolist() == [
        [[352, NONE], absent],
        [[350, NONE], [351, NONE]],
        [absent, absent],
        [absent, absent],
    ]


def test_without_hard_negatives_there_is_none():
    batch = collate(CORPUS, ROWS[1:])
    queries, _, negatives, mask = batch.split(torch.zeros(2, 5))
    assert (len(queries), negatives, mask, batch.scores) == (1, None, None, None)


def test_scores_are_those_of_scored_pairs():
    scored = SimpleNamespace(
        store=STORE,
        datasets=[
            dataset("sts", 0, [[], []], scores=np.array([0.25, 1.0])),
            dataset("retrieval", 20, [[]]),
        ],
    )
    rows = [Rows("sts", 0, np.array([1, 0])), Rows("retrieval", 1, np.array([0]))]
    assert collate(scored, rows[:1]).scores.tolist() == [1.0, 0.25]
    expected = torch.tensor([1.0, 0.25, torch.nan])
    torch.testing.assert_close(collate(scored, rows).scores, expected, equal_nan=True)
    assert collate(scored, rows[1:]).scores is None


def test_a_teacher_has_no_scores_where_a_dataset_has_none():
    teacher = np.array([[0.9, 0.5], [0.8, np.nan]], np.float32)
    corpus = SimpleNamespace(
        store=STORE,
        datasets=[
            dataset("retrieval", 0, [[50], [-1]], teacher=teacher),
            dataset("retrieval", 20, [[53, 54]]),
        ],
    )
    rows = [Rows("retrieval", 0, np.array([1, 0])), Rows("retrieval", 1, np.array([0]))]
    found = collate(corpus, rows).teacher_scores
    assert found.dtype == torch.float32
    expected = torch.tensor([[0.8, torch.nan, torch.nan], [0.9, 0.5, torch.nan], [torch.nan] * 3])
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("world", [2, 3, 4, 7])
def test_ranks_share_the_texts_and_know_the_whole_batch(world):
    whole = collate(CORPUS, ROWS)
    parts = [collate(CORPUS, ROWS, rank, world) for rank in range(world)]
    placed = [None] * 11
    for rank, part in enumerate(parts):
        for position, text in zip(part.layout.members(rank), texts(part), strict=True):
            placed[position] = text
        for field in fields(whole):
            if field.name in ("tokens", "layout", "scores", "teacher_scores", "tasks"):
                continue
            assert torch.equal(getattr(part, field.name), getattr(whole, field.name))
        assert part.figures() == whole.figures()
    assert placed == texts(whole)


def test_a_query_is_where_its_documents_are():
    layout = collate(CORPUS, ROWS, 0, 3).layout
    queries, positives, negatives = np.split(layout.owners, [4, 8])
    assert queries.tolist() == positives.tolist()
    assert negatives.tolist() == [queries[0], queries[1], queries[1]]


def test_a_subset_has_its_examples_vectors():
    batch, vectors = collate(CORPUS, ROWS), torch.arange(11.0)[:, None]
    part, rows = batch.subset(torch.tensor([3, 1]), vectors)
    queries, positives, negatives, mask = part.split(rows)
    assert queries.flatten().tolist() == [3, 1]
    assert positives.flatten().tolist() == [7, 5]
    assert negatives.squeeze(-1).tolist() == [[0, 0], [9, 10]]
    assert mask.tolist() == [[False, False], [True, True]]
    assert part.tasks == ("classification", "retrieval")
    assert part.examples.tolist() == [[1, 2], [0, 0]]
    assert torch.equal(part.query_keys, batch.query_keys[[3, 1]])


def test_figures_count_what_the_batch_holds():
    figures = collate(CORPUS, ROWS, 1, 2).figures()
    assert figures["tasks"] == ["classification", "retrieval"]
    assert figures["tokens"] == len(collate(CORPUS, ROWS).tokens.input_ids)
    assert figures["hard_negatives"] == 3 / 4


def test_it_takes_no_time():
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 128, 3000)
    store = TokenStore(np.zeros(lengths.sum(), np.int32), np.r_[0, lengths.cumsum()])
    data = dataset("retrieval", 0, [[i + 2000] for i in range(1000)])
    corpus = SimpleNamespace(store=store, datasets=[data])
    rows = [Rows("retrieval", 0, rng.permutation(1000)[:128])]
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        collate(corpus, rows)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1e-3
