"""The lexical teacher scores by BM25 and ranks exactly."""

import math

import numpy as np
import pytest

from embedexp.negatives.bm25 import BM25Teacher
from embedexp.negatives.forbidden import forbid

pytest.importorskip("bm25s")
DOCUMENTS = [
    "the red fox jumps",
    "the lazy dog sleeps in the red house",
    "a red red fox",
    "nothing in common here",
    "dog and fox",
]


def lucene(query, document, k1, b):
    """BM25 in Lucene's form, from its definition."""
    words = [[w for w in text.split() if len(w) > 1] for text in DOCUMENTS]
    length = np.mean([len(row) for row in words])
    total = 0.0
    for word in query.split():
        count = sum(word in row for row in words)
        if not count:
            continue
        idf = math.log(1 + (len(words) - count + 0.5) / (count + 0.5))
        tf = words[document].count(word)
        total += idf * tf / (tf + k1 * (1 - b + b * len(words[document]) / length))
    return total


def test_scores_equal_the_formula():
    teacher = BM25Teacher.build(["red fox", "sleeping dog unknown"], DOCUMENTS, 1.2, 0.6)
    rows, documents = np.repeat([0, 1], 5), np.tile(np.arange(5), 2)
    expected = [
        lucene(query, document, 1.2, 0.6)
        for query in ("red fox", "sleeping dog unknown")
        for document in range(5)
    ]
    np.testing.assert_allclose(teacher.scores(rows, documents), expected, rtol=1e-5, atol=1e-7)


def test_hits_are_ranked_without_what_is_forbidden_or_shares_no_word():
    teacher = BM25Teacher.build(["red fox", "zebra"], DOCUMENTS, 1.5, 0.75)
    scores = teacher.scores(np.zeros(5, int), np.arange(5))
    found = teacher.hits(slice(0, 2), 4, forbid([[2], []], 5))
    expected = [d for d in np.argsort(-scores, kind="stable").tolist() if d not in (2, 3)]
    assert found.documents[0].tolist() == [*expected, -1]
    assert found.documents[1].tolist() == [-1] * 4


def test_equal_scores_come_by_number_also_at_the_end_of_the_list():
    teacher = BM25Teacher.build(["word"], ["word other"] * 9, 1.5, 0.75)
    assert teacher.hits(slice(0, 1), 4, forbid([[1]], 9)).documents.tolist() == [[0, 2, 3, 4]]


def test_some_documents_are_numbered_anew():
    teacher = BM25Teacher.build(["red fox"], DOCUMENTS, 1.5, 0.75)
    part = teacher.subset(np.array([0, 4]))
    found = part.hits(slice(0, 1), 2, forbid([[]], 2))
    assert found.documents.tolist() == [[0, 1]]
    np.testing.assert_array_equal(
        part.scores(np.array([0, 0]), np.array([0, 1])),
        teacher.scores(np.array([0, 0]), np.array([0, 4])),
    )


def test_scripts_without_spaces_match_by_character():
    documents = ["北京大学是一所大学", "上海", "große Straße", "ひらがな"]
    teacher = BM25Teacher.build(["北京在哪里", "Große STRASSE, große", "な"], documents, 1.5, 0.75)
    hits = teacher.hits(slice(0, 3), 4, forbid([[], [], []], 4))
    assert [row[row >= 0].tolist() for row in hits.documents] == [[0], [2], [3]]


def test_documents_without_words_are_no_candidates():
    teacher = BM25Teacher.build(["one", ""], ["", "?!", "…"], 1.5, 0.75)
    hits = teacher.hits(slice(0, 2), 2, forbid([[0], [1]], 3))
    assert (hits.documents == -1).all()
    assert teacher.scores(np.array([0, 1]), np.array([2, 0])).tolist() == [0, 0]
