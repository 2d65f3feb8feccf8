"""The tiled search is the brute-force search, whatever the tiles."""

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.negatives.forbidden import forbid
from embedexp.negatives.products import dots
from embedexp.negatives.search import Tile, search

RNG = np.random.default_rng(7)


def brute(queries, documents, k, barred=()):
    """The definition in float64: by falling score, equals by rising number."""
    scores = np.asarray(queries, float) @ np.asarray(documents, float).T
    for query, document in barred:
        scores[query, document] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    values = np.take_along_axis(scores, order, 1)
    return np.where(np.isneginf(values), -1, order), values


@pytest.mark.parametrize("tile", [Tile(), Tile(7, 13, 50), Tile(1, 1, 1), Tile(64, 1000, 64)])
def test_equals_brute_force_in_float64(tile):
    queries, documents = RNG.normal(size=(60, 32)), RNG.normal(size=(900, 32))
    queries, documents = queries.astype(np.float32), documents.astype(np.float32)
    if tile.documents == 1:
        queries, documents = queries[:5], documents[:40]
    found = search(queries, documents, 20, tile=tile)
    order, scores = brute(queries, documents, 20)
    np.testing.assert_array_equal(found.documents, order)
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12)


def test_scores_that_float32_cannot_tell_apart_are_in_the_order_of_float64():
    """Documents differ by less than the rounding of a float32 score."""
    base = RNG.normal(size=64)
    documents = base + 1e-9 * RNG.normal(size=(500, 64))  # float64: float32 would make them equal
    queries = RNG.normal(size=(3, 64))
    found = search(queries, documents, 10, tile=Tile(2, 90, 2))
    assert (np.float32(queries @ documents.T).std(1) < 1e-5).all()
    scores = np.stack([[np.dot(q, d) for d in documents] for q in queries])
    np.testing.assert_allclose(found.scores, -np.sort(-scores, 1)[:, :10], rtol=0, atol=1e-13)


def test_equal_documents_come_by_their_number_in_every_tile():
    documents = np.repeat(RNG.normal(size=(3, 16)), 40, axis=0).astype(np.float32)
    queries = RNG.normal(size=(9, 16)).astype(np.float32)
    order, _ = brute(queries, documents, 50)
    for tile in (Tile(), Tile(4, 7, 8), Tile(2, 41, 3)):
        np.testing.assert_array_equal(search(queries, documents, 50, tile=tile).documents, order)


def test_fewer_documents_than_asked_are_not_filled_up():
    found = search(RNG.normal(size=(2, 4)), RNG.normal(size=(3, 4)), 5)
    assert (found.documents >= 0).sum(1).tolist() == [3, 3]
    assert np.isneginf(found.scores[:, 3:]).all()


def test_forbidden_documents_make_room_for_the_next_ones():
    queries, documents = RNG.normal(size=(40, 8)), RNG.normal(size=(300, 8))
    positives = [RNG.choice(300, RNG.integers(0, 30), replace=False).tolist() for _ in range(40)]
    groups = RNG.integers(-1, 6, 300)
    barred = {(q, d) for q, row in enumerate(positives) for d in row}
    barred |= {
        (q, d)
        for q, row in enumerate(positives)
        for d in range(300)
        if groups[d] >= 0 and groups[d] in {groups[p] for p in row}
    }
    forbidden = forbid(positives, 300, None, groups)
    order, _ = brute(queries, documents, 25, barred)
    for tile in (Tile(), Tile(9, 31, 17)):
        found = search(queries, documents, 25, forbidden=forbidden, tile=tile)
        np.testing.assert_array_equal(found.documents, order)
    everything = np.stack(np.meshgrid(np.arange(40), np.arange(300), indexing="ij"), -1)
    pairs = everything.reshape(-1, 2)
    contains = forbidden.contains(pairs[:, 0], pairs[:, 1])
    assert {tuple(pair) for pair in pairs[contains].tolist()} == barred


def test_vectors_that_are_not_finite_are_refused():
    documents = RNG.normal(size=(30, 4))
    documents[17, 2] = np.nan
    with pytest.raises(UserError, match="vectors of documents are not finite"):
        search(RNG.normal(size=(2, 4)), documents, 3)


def test_many_equal_documents_are_decided_together():
    # Far more equal scores at the end of each list than candidates are kept beyond it.
    documents = RNG.normal(size=(900, 16)).astype(np.float32)
    documents[100:600] = documents[100]
    documents = documents[RNG.permutation(900)]
    queries = documents[:300] + RNG.normal(size=(300, 16)).astype(np.float32)
    barred = forbid([[i] for i in range(300)], 900)
    found = search(queries, documents, 20, forbidden=barred, tile=Tile(64, 128, 200))
    scores = np.stack(
        [dots(np.broadcast_to(query, documents.shape), documents) for query in queries]
    )
    scores[np.arange(300), np.arange(300)] = -np.inf
    best = np.lexsort((np.broadcast_to(np.arange(900), scores.shape), -scores), axis=-1)[:, :20]
    np.testing.assert_array_equal(found.documents, best)
