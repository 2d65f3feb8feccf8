"""An index finds what the exact search finds, or less; never what is forbidden or a filler."""

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.config.schema.stage import HNSWIndex, IVFIndex, MiningSearch, SearchTile
from embedexp.negatives.forbidden import forbid
from embedexp.negatives.indexes import FaissSearch
from embedexp.negatives.search import search

pytest.importorskip("faiss")
RNG = np.random.default_rng(11)
DOCUMENTS = RNG.normal(size=(700, 16)).astype(np.float32)
QUERIES = RNG.normal(size=(30, 16)).astype(np.float32)
POSITIVES = [RNG.choice(700, RNG.integers(0, 40), replace=False).tolist() for _ in range(30)]
FORBIDDEN = forbid(POSITIVES, 700)


def index(method, lists=8, probes=8):
    return FaissSearch(
        MiningSearch(
            method=method,
            tile=SearchTile(queries=8, documents=8, block=8),
            ivf=IVFIndex(lists=lists, probes=probes),
            hnsw=HNSWIndex(links=16, build_breadth=80, breadth=200),
        )
    )


@pytest.mark.parametrize("method", ["faiss_flat", "faiss_ivf"])
def test_flat_and_all_lists_equal_the_exact_search(method):
    exact = search(QUERIES, DOCUMENTS, 25, forbidden=FORBIDDEN)
    found = index(method)(QUERIES, DOCUMENTS, 25, FORBIDDEN)
    np.testing.assert_array_equal(found.documents, exact.documents)
    np.testing.assert_array_equal(found.scores, exact.scores)


@pytest.mark.parametrize("method", ["faiss_hnsw", "faiss_ivf"])
def test_approximate_search_is_near_and_never_returns_what_is_forbidden(method):
    exact = search(QUERIES, DOCUMENTS, 10, forbidden=FORBIDDEN)
    found = index(method, lists=32, probes=12)(QUERIES, DOCUMENTS, 10, FORBIDDEN)
    recall = np.mean(
        [len({*a} & {*b}) / 10 for a, b in zip(found.documents, exact.documents, strict=True)]
    )
    assert recall > 0.7
    for row, positives in zip(found.documents, POSITIVES, strict=True):
        assert not set(row.tolist()) & set(positives)


def test_more_asked_than_there_is_gives_a_shorter_list():
    found = index("faiss_flat")(QUERIES, DOCUMENTS[:5], 9, forbid([[0, 1]] * 30, 5))
    assert [sorted(row[row >= 0].tolist()) for row in found.documents] == [[2, 3, 4]] * 30
    narrow = index("faiss_ivf", lists=64, probes=1)(QUERIES, DOCUMENTS, 300, None)
    assert ((narrow.documents >= 0) == np.isfinite(narrow.scores)).all()
    assert 0 < (narrow.documents >= 0).sum() < narrow.documents.size


def test_more_lists_than_documents_are_refused():
    with pytest.raises(UserError, match="5 documents can't be put into 8 clusters"):
        index("faiss_ivf")(QUERIES, DOCUMENTS[:5], 2, None)
