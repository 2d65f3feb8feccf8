"""Documents that share a group with a positive are found, whatever number of groups there are."""

import numpy as np
import pytest

from embedexp.data import Dataset
from embedexp.negatives.examples import Examples


def dataset(queries, positives, groups):
    return Dataset("some", "retrieval", queries, positives, groups=groups)


def pairs(forbidden, queries, documents):
    """Forbidden pairs `[queries, documents]`, looked up in tiles of uneven size."""
    found = np.zeros((queries, documents), bool)
    for low in range(0, queries, 7):
        rows = slice(low, min(queries, low + 7))
        some = forbidden.rows(rows)
        for begin in range(0, documents, 5):
            tile = slice(begin, min(documents, begin + 5))
            at, places = some.within(tile)
            found[at + low, places + begin] = True
    return found


@pytest.mark.parametrize("seed", range(20))
def test_forbidden_pairs_are_those_of_a_plain_search(seed):
    random = np.random.default_rng(seed)
    n = 60
    queries = [f"text {i}" for i in random.integers(0, 30, n)]
    positives = [f"text {i}" for i in random.integers(20, 50, n)]
    groups = [None if g > 12 else f"group {g}" for g in random.integers(0, 16, n)]
    examples = Examples.of(dataset(queries, positives, groups))
    groups_of = {}
    for document, group in zip(positives, groups, strict=True):
        groups_of.setdefault(document, set()).update({group} - {None})
    right = {}
    for query, document in zip(queries, positives, strict=True):
        right.setdefault(query, set()).add(document)
    expected = np.array(
        [
            [
                document in right[query]
                or document == query
                or any(groups_of[document] & groups_of[positive] for positive in right[query])
                for document in examples.documents
            ]
            for query in examples.queries
        ]
    )
    shape = expected.shape
    np.testing.assert_array_equal(pairs(examples.forbidden, *shape), expected)
    rows, columns = np.indices(shape).reshape(2, -1)
    asked = examples.forbidden.contains(rows, columns)
    np.testing.assert_array_equal(asked.reshape(shape), expected)
    some = np.flatnonzero(random.random(shape[1]) < 0.5)
    fewer = examples.forbidden.documents(some)
    np.testing.assert_array_equal(pairs(fewer, shape[0], len(some)), expected[:, some])


def test_a_document_of_very_many_groups_is_no_burden():
    n = 20_000
    positives = ["yes" if i % 2 else f"answer {i}" for i in range(n)]
    groups = [f"page {i // 4}" for i in range(n)]
    examples = Examples.of(dataset([f"question {i}" for i in range(n)], positives, groups))
    assert len(examples.forbidden.columns) == 2
    yes = examples.documents.index("yes")
    some = examples.forbidden.rows(slice(0, 2))
    rows, places = some.within(slice(0, len(examples.documents)))
    # Question 0: its answer and its page; question 1, whose answer is on all pages: everything.
    assert set(places[rows == 0].tolist()) == {yes, 0, examples.documents.index("answer 2")}
    assert len(set(places[rows == 1].tolist())) == len(examples.documents)
