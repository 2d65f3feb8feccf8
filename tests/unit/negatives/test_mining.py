"""What is mined equals other implementations, and is never a right answer."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers.util import cos_sim, mine_hard_negatives, pairwise_cos_sim

from embedexp.negatives import mine
from embedexp.negatives.mining import mine_with
from embedexp.negatives.rules import Rules
from embedexp.negatives.search import Tile
from embedexp.negatives.teachers import Embeddings
from embedexp.negatives.vectors import Mean, Normalised

RNG = np.random.default_rng(3)


def texts(prefix, count):
    return [f"{prefix}{i}" for i in range(count)]


class Given:
    """A model whose embeddings are given, as sentence-transformers asks for them."""

    device = torch.device("cpu")
    similarity, similarity_pairwise = staticmethod(cos_sim), staticmethod(pairwise_cos_sim)

    def __init__(self, queries, documents):
        self.queries, self.documents = queries, documents

    def encode_query(self, chosen, **_):
        return self.queries[[int(text[1:]) for text in chosen]]

    def encode_document(self, chosen, **_):
        return self.documents[[int(text[1:]) for text in chosen]]


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"relative_margin": 0.05},
        {"absolute_margin": 0.1},
        {"max_score": 0.3},
        {"min_score": 0.1, "max_score": 0.4},
        {"relative_margin": 0.02, "min_score": 0.05},
    ],
)
def test_equals_sentence_transformers_where_the_rules_coincide(rules):
    # Their window is counted after the other rules, ours before: here it leaves nothing out.
    n, m = 50, 400
    k = m
    documents = RNG.normal(size=(m, 24)).astype(np.float32)
    queries = documents[:n] + 2 * RNG.normal(size=(n, 24)).astype(np.float32)
    positives = [[i] if i % 3 else [i, (i + 7) % m] for i in range(n)]
    pairs = [(f"q{q}", f"d{d}") for q, row in enumerate(positives) for d in row]
    theirs = mine_hard_negatives(
        Dataset.from_dict({"q": [q for q, _ in pairs], "p": [d for _, d in pairs]}),
        Given(queries, documents),
        corpus=texts("d", m),
        num_negatives=5,
        range_max=k,
        output_format="triplet",
        verbose=False,
        **rules,
    )
    expected = {}
    for query, positive, negative in zip(*theirs.to_dict().values(), strict=True):
        found = expected.setdefault((int(query[1:]), int(positive[1:])), [])
        found.append(int(negative[1:]))
    ours = mine(queries, documents, positives, count=5, rank_max=k, **rules)
    assert sum(map(len, expected.values())) > 100
    for query, row in enumerate(positives):
        for positive in row:
            assert ours.negatives[query] == expected.get((query, positive), [])


@pytest.mark.parametrize("reference", ["min", "max"])
def test_equals_a_loop_over_the_definition_in_float64(reference):
    n, m = 40, 500
    documents, queries = RNG.normal(size=(m, 16)), RNG.normal(size=(n, 16))
    queries += documents[:n]
    keys = np.stack([RNG.integers(0, 350, m), RNG.integers(-1, 40, m)], 1)
    positives = [RNG.choice(m, RNG.integers(1, 6), replace=False).tolist() for _ in range(n)]
    query_keys = np.stack([RNG.integers(0, 350, n), RNG.integers(-1, 40, n)], 1)
    found = mine(
        queries.astype(np.float32),
        documents.astype(np.float32),
        positives,
        count=6,
        rank_min=2,
        rank_max=60,
        percent_of_positive=0.95,
        reference=reference,
        query_keys=query_keys,
        document_keys=keys,
        tile=Tile(16, 64, 20),
    )
    q = queries.astype(np.float32).astype(float)
    d = documents.astype(np.float32).astype(float)
    scores = (q / np.linalg.norm(q, axis=1)[:, None]) @ (d / np.linalg.norm(d, axis=1)[:, None]).T
    first = {key: i for i, key in reversed(list(enumerate(keys[:, 0])))}
    for i in range(n):
        bar = getattr(np, reference)([scores[i, p] for p in positives[i]])
        limit = 0.95 * bar if bar >= 0 else 1.05 * bar
        wrong = []
        for j in np.argsort(-scores[i]):
            right = j in positives[i] or j != first[keys[j, 0]]
            for column in (0, 1):
                near = {keys[p, column] for p in positives[i]} | {query_keys[i, column]}
                right = right or (keys[j, column] >= 0 and keys[j, column] in near)
            if not right:
                wrong.append(int(j))
        expected = [j for j in wrong[2:60] if scores[i, j] <= limit][:6]
        assert found.negatives[i] == expected
        np.testing.assert_allclose(
            found.scores[i, : len(expected)], scores[i, expected], rtol=0, atol=1e-6
        )


def test_known_positives_duplicates_and_siblings_are_never_returned():
    """Document 1 has the positive's text, 2 its group, 3 the query's text, 4 twice."""
    scores = np.array([[0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5]])
    keys = [[10, 1], [10, -1], [12, 1], [13, -1], [14, 2], [14, 3], [15, -1]]
    found = mine(
        np.eye(1), scores.T, [[0]], count=6, normalize=False,
        query_keys=[[13, -1]], document_keys=keys,
    )  # fmt: skip
    assert found.negatives == [[4, 6]]


def test_memory_maps_are_read_in_tiles(tmp_path):
    documents = RNG.normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "d.npy", documents)
    mapped = np.load(tmp_path / "d.npy", mmap_mode="r")
    queries, positives = documents[:20] + 0.1, [[i] for i in range(20)]
    expected = mine(queries, documents, positives, count=3).negatives
    assert mine(queries, mapped, positives, count=3, tile=Tile(8, 32, 8)).negatives == expected


def teachers(rows):
    """Teachers with given scores `[teachers, m]` of one query."""
    return [Embeddings(np.eye(1), np.array(row, float)[:, None]) for row in rows]


def together(rows, combination, *, count=3, **rules):
    return mine_with(
        teachers(rows),
        1,
        len(rows[0]),
        [[0]],
        [Rules(count, rank_max=len(rows[0]), **rules)] * len(rows),
        combination=combination,
    )


def test_union_takes_turns_between_teachers_and_keeps_each_document_once():
    rows = [[0.9, 0.8, 0.7, 0.1, 0.2, 0.3], [0.9, 0.1, 0.8, 0.7, 0.6, 0.2]]
    found = together(rows, "union", count=4)  # 1 2 5 4 and 2 3 4 5
    assert found.negatives == [[1, 2, 3, 5]]
    assert found.scores[0].tolist() == [0.8, 0.7, 0.1, 0.3]  # all of the first teacher


def test_each_teacher_holds_its_rules_against_its_own_scores():
    rows = [[0.5, 0.8, 0.7, 0.1, 0.2], [0.9, 0.1, 0.8, 0.85, 0.6]]
    assert together(rows, "union", percent_of_positive=1.0).negatives == [[4, 3, 2]]


def test_agreement_is_what_passes_all_by_the_sum_of_ranks():
    rows = [[0.9, 0.8, 0.7, 0.6, 0.5, 0.95], [0.9, 0.91, 0.6, 0.5, 0.8, 0.1]]
    found = together(rows, "agreement", percent_of_positive=1.0)
    # The order is 5 1 2 3 4 and 1 4 2 3 5: the sums of 2, 4 and 3 are 4, 5 and 6. Document 5 is
    # above the positive for the first teacher, 1 for the second.
    assert found.negatives == [[2, 4, 3]]


def test_mean_is_the_mean_of_the_cosines():
    first, second = RNG.normal(size=(2, 60, 8)), RNG.normal(size=(2, 60, 12))
    queries = Mean([Normalised(first[0]), Normalised(second[0])])
    documents = Mean([Normalised(first[1]), Normalised(second[1])])
    positives = [[i] for i in range(60)]
    found = mine_with([Embeddings(queries, documents)], 60, 60, positives, [Rules(5, rank_max=59)])
    cosines = [
        (a / np.linalg.norm(a, axis=1)[:, None]) @ (b / np.linalg.norm(b, axis=1)[:, None]).T
        for a, b in (first, second)
    ]
    mean = (cosines[0] + cosines[1]) / 2
    np.fill_diagonal(mean, -np.inf)
    assert found.negatives == np.argsort(-mean, axis=1)[:, :5].tolist()


def test_a_cross_encoder_replaces_the_scores_of_all_rules():
    asked = []

    def rescore(rows, documents):
        asked.extend(zip(rows.tolist(), documents.tolist(), strict=True))
        return np.array([0.5, 0.1, 0.3, 0.6, 9.0])[documents]

    found = mine_with(
        teachers([[0.9, 0.8, 0.7, 0.6, 0.1]]), 1, 5, [[0]],
        [Rules(2, rank_max=3, percent_of_positive=0.9)], rescore=rescore,
    )  # fmt: skip
    assert found.negatives == [[2, 1]]  # 3 scores above the positive, 4 was no candidate
    assert set(asked) == {(0, 0), (0, 1), (0, 2), (0, 3)}


def test_blocks_and_slices_of_queries_change_nothing():
    documents = RNG.normal(size=(200, 8))
    vectors = Embeddings(documents[:50] + 0.3, documents)
    positives, rules = [[i] for i in range(50)], [Rules(3, sampling="random")]
    whole = mine_with([vectors], 50, 200, positives, rules)
    small = mine_with([vectors], 50, 200, positives, rules, block=7)
    part = mine_with([vectors], 50, 200, positives, rules, rows=slice(20, 33), block=4)
    assert small.negatives == whole.negatives
    assert part.query.tolist() == list(range(20, 33))
    assert part.negatives == whole.negatives[20:33]
