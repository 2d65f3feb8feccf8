from __future__ import annotations

import pytest

from embedexp.data.builtin import heldout
from embedexp.evaluation.tasks import UNKNOWN, Bitext, Classification, Retrieval, language


def parts(task: Retrieval) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    split = task.dataset["default"]["test"]
    queries = dict(zip(split["queries"]["id"], split["queries"]["text"], strict=True))
    corpus = dict(zip(split["corpus"]["id"], split["corpus"]["text"], strict=True))
    return queries, corpus, split["relevant_docs"]


def relevant_texts(task: Retrieval) -> dict[str, set[str]]:
    queries, corpus, relevant = parts(task)
    return {queries[q]: {corpus[d] for d in documents} for q, documents in relevant.items()}


def test_equal_documents_and_equal_queries_are_merged() -> None:
    pairs = [("q1", "same"), ("q2", " same "), ("q1", "other"), ("q3", "third")]
    task = Retrieval("T", pairs, queries=10, documents=10)
    assert sorted(parts(task)[1].values()) == ["other", "same", "third"]
    assert relevant_texts(task) == {"q1": {"same", "other"}, "q2": {"same"}, "q3": {"third"}}


def test_documents_beyond_the_queries_are_distractors() -> None:
    pairs = [(f"q{i}", f"d{i}") for i in range(30)]
    queries, corpus, _ = parts(task := Retrieval("T", pairs, queries=10, documents=20))
    assert list(queries.values()) == [f"q{i}" for i in range(10)]
    assert list(corpus.values()) == [f"d{i}" for i in range(20)]
    assert relevant_texts(task) == {f"q{i}": {f"d{i}"} for i in range(10)}


def test_every_query_keeps_its_document_when_documents_are_few() -> None:
    pairs = [(f"q{i}", f"d{i}") for i in range(30)]
    task = Retrieval("T", pairs, queries=20, documents=10)
    assert relevant_texts(task) == {f"q{i}": {f"d{i}"} for i in range(10)}
    assert len(parts(task)[1]) == 10


def test_revision_of_a_task_is_its_content() -> None:
    pairs = [(f"q{i}", f"d{i}") for i in range(30)]

    def revision(queries: int, pairs: list[tuple[str, str]]) -> str:
        return str(Retrieval("T", pairs, queries=queries, documents=20).metadata.revision)

    assert revision(10, pairs) == revision(10, list(pairs))
    assert revision(10, pairs) != revision(11, pairs)
    assert revision(10, pairs) != revision(10, [("q0", "new"), *pairs[1:]])


def test_classes_have_the_same_number_in_both_splits() -> None:
    task = Classification("T", [("a", "z"), ("b", "y")], [("c", "y"), ("d", "x")])
    assert task.dataset["train"]["label"][:] == [2, 1]
    assert task.dataset["test"]["label"][:] == [1, 0]


def test_every_language_of_the_catalogues_is_known_to_mteb() -> None:
    material = heldout()
    for pairs in (material.django, material.emoji):
        assert pairs
        assert UNKNOWN not in {language(code) for code in pairs}
        task = Bitext("T", {code: rows[:3] for code, rows in pairs.items()})
        assert task.metadata.hf_subsets == [f"{code}-en" for code in pairs]


@pytest.mark.parametrize(
    ("code", "expected"), [("pt_BR", "por-Latn"), ("zh-Hans", "zho-Hans"), ("xx", UNKNOWN)]
)
def test_language_codes_with_regions_and_unknown_ones(code: str, expected: str) -> None:
    assert language(code) == expected
