"""A pair stays if fewer than k other documents of its shard are nearer to its query."""

import tracemalloc

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.negatives import consistency_filter
from embedexp.negatives.search import Tile

RNG = np.random.default_rng(5)


def scored(scores, **options):
    """Filter pairs with `scores[i, j]` of query i and document j."""
    scores = np.array(scores, float)
    return consistency_filter(np.eye(len(scores)), scores.T, normalize=False, **options)


def test_ranks_and_places_by_hand():
    scores = [[0.9, 0.1, 0.2], [0.5, 0.3, 0.4], [0.6, 0.1, 0.5]]
    found = scored(scores, top_k=1)
    assert found.ranks.tolist() == [0, 2, 1]
    assert found.keep.tolist() == [True, False, False]
    np.testing.assert_allclose(found.scores, [0.9, 0.3, 0.5], rtol=1e-7)
    assert scored(scores, top_k=2).keep.tolist() == [True, False, True]
    assert scored(scores, top_k=3, min_score=0.5).keep.tolist() == [True, False, True]


def test_equal_scores_are_no_reason_to_drop():
    assert scored([[0.5, 0.5], [0.5, 0.5]], top_k=1).keep.all()


def test_equal_documents_count_once_and_never_against_their_pair():
    scores = np.array([[0.5, 0.7, 0.7], [0.5, 0.7, 0.7], [0.5, 0.7, 0.7]])
    assert scored(scores, top_k=2).ranks.tolist() == [2, 0, 0]
    keys = [1, 2, 2]  # documents 1 and 2 are the same text
    assert scored(scores, top_k=2, document_keys=keys).ranks.tolist() == [1, 0, 0]


def test_other_positives_and_siblings_do_not_count_against_a_pair():
    scores = np.array(
        [[0.5, 0.7, 0.6, 0.8], [0.5, 0.7, 0.6, 0.8], [0.1, 0.7, 0.6, 0.8], [0, 0, 0, 1]]
    )
    plain = scored(scores, top_k=1)
    assert plain.ranks.tolist() == [3, 1, 2, 0]
    same_query = scored(
        scores, top_k=1, query_keys=[100, 100, 101, 102], document_keys=[1, 2, 3, 4]
    )
    assert same_query.ranks.tolist() == [2, 1, 2, 0]
    siblings = scored(scores, top_k=1, document_keys=[[1, 7], [2, -1], [3, -1], [4, 7]])
    assert siblings.ranks.tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize("tile", [Tile(), Tile(11, 17, 40)])
def test_equals_brute_force_in_float64_shard_by_shard(tile):
    n, size = 230, 100
    documents = RNG.normal(size=(n, 12)).astype(np.float32)
    queries = (documents + 1.5 * RNG.normal(size=(n, 12))).astype(np.float32)
    found = consistency_filter(
        queries, documents, top_k=2, shard_size=size, normalize=False, tile=tile
    )
    scores = queries.astype(float) @ documents.astype(float).T
    for i in range(n):
        shard = range(i // size * size, min(n, i // size * size + size))
        rank = sum(scores[i, j] > scores[i, i] for j in shard)
        assert found.ranks[i] == rank
        assert found.shards[i] == i // size
    assert 0.1 < found.keep.mean() < 0.95
    np.testing.assert_array_equal(found.keep, found.ranks < 2)


def test_near_ties_are_decided_in_float64():
    """The other document is nearer by less than float32 can see."""
    base = RNG.normal(size=32)
    base /= np.linalg.norm(base)
    documents = np.stack([base, base]).astype(np.float32)
    documents[1, 0] = np.nextafter(documents[1, 0], np.float32(np.sign(documents[1, 0]) * 9))
    queries = np.stack([base, base]).astype(np.float32)
    exact = (queries.astype(float) * documents.astype(float)).sum(1)
    assert exact[1] > exact[0]
    found = consistency_filter(queries, documents, top_k=1, normalize=False)
    assert found.ranks.tolist() == [1, 0]


def test_shuffled_shards_hold_every_pair_once_and_follow_the_seed():
    vectors = RNG.normal(size=(50, 4))
    one, same, other = (
        consistency_filter(vectors, vectors, shard_size=20, seed=seed).shards for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.bincount(one).tolist() == [20, 20, 10]
    assert (one != other).any()


def test_pairs_that_do_not_match_are_refused():
    with pytest.raises(UserError, match=r"queries are \[2, 3\] and documents \[3, 3\]"):
        consistency_filter(np.ones((2, 3)), np.ones((3, 3)))


def test_pairs_that_fit_badly_are_ranked_in_little_memory():
    n, width = 1200, 256
    queries, documents = RNG.normal(size=(2, n, width)).astype(np.float32)
    tracemalloc.start()
    found = consistency_filter(queries, documents, top_k=2, normalize=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Half of the shard is nearer than a random pair's own document: 0.7 million pairs of vectors.
    scores = queries.astype(float) @ documents.T.astype(float)
    np.testing.assert_array_equal(found.ranks, (scores > np.diag(scores)[:, None]).sum(1))
    assert peak < 64 * 2**20


def test_equal_queries_with_many_documents_are_no_burden():
    n = 3000
    queries = np.repeat(RNG.normal(size=(1, 8)), n, 0).astype(np.float32)
    documents = RNG.normal(size=(n, 8)).astype(np.float32)
    tracemalloc.start()
    found = consistency_filter(
        queries, documents, top_k=1, query_keys=np.zeros(n), tile=Tile(128, 512, 1024)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.keep.all()  # all are positives of the one query
    assert peak < 16 * 2**20


@pytest.mark.parametrize("seed", [None, 3])
def test_parts_are_compared_within_themselves_alone(seed):
    queries, documents = RNG.normal(size=(2, 60, 8))
    parts = RNG.integers(0, 3, 60)
    found = consistency_filter(queries, documents, top_k=5, parts=parts, seed=seed, shard_size=60)
    for part in range(3):
        rows = parts == part
        alone = consistency_filter(queries[rows], documents[rows], top_k=5)
        np.testing.assert_array_equal(found.ranks[rows], alone.ranks)
        assert len(np.unique(found.shards[rows])) == 1
    small = consistency_filter(queries, documents, parts=parts, seed=seed, shard_size=10)
    for shard in np.unique(small.shards):
        members = small.shards == shard
        assert members.sum() <= 10
        assert len(np.unique(parts[members])) == 1
