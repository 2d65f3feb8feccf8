from __future__ import annotations

from collections import Counter
from typing import Any

import mteb
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import embedexp
from embedexp.config.schema.evaluation import BuiltinEvaluation
from embedexp.data.builtin import Heldout, heldout
from embedexp.evaluation import material
from embedexp.evaluation.builtin import BUILDERS
from embedexp.evaluation.label_tasks import (
    Classification,
    MultilabelClassification,
    PairClassification,
)
from embedexp.evaluation.ranked_tasks import CrossLingualRetrieval, Reranking, Retrieval
from embedexp.evaluation.tasks import UNKNOWN, Bitext, language

from .conftest import Words


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


REVISIONS = {
    "WordNetDefinitions": "aad594432d91e774",
    "WordNetSimilarity": "5b0124b06fbbdc00",
    "WordNetClasses": "ad6e92901ed7ad7d",
    "WordNetClusters": "92daa9b5022009d0",
}


@pytest.fixture(scope="module")
def shipped() -> Heldout:
    return heldout()


def test_revisions_of_the_default_tasks_have_not_moved(shipped: Heldout) -> None:
    """Scores are kept by them: a changed revision measures every model again."""
    option = embedexp.compose([]).evaluation
    assert isinstance(option, BuiltinEvaluation)
    assert {
        n: str(BUILDERS[n](shipped, option).metadata.revision) for n in option.tasks
    } == REVISIONS


def test_each_language_searches_its_own_english_documents() -> None:
    pairs = {
        "de": [("eins", "one"), ("zwei", "two"), ("zwo", "two"), ("drei", "three")],
        "fr": [("un", "one"), ("deux", "two")],
    }
    task = CrossLingualRetrieval("T", pairs, queries=3, documents=10)
    assert task.metadata.hf_subsets == ["de-en", "fr-en"]
    assert task.metadata.languages == ["deu", "eng", "fra"]
    split = task.dataset["de-en"]["test"]
    assert split["queries"]["text"][:] == ["eins", "zwei", "zwo"]
    assert split["corpus"]["text"][:] == ["one", "two", "three"]
    assert split["relevant_docs"] == {"q0": {"d0": 1}, "q1": {"d1": 1}, "q2": {"d1": 1}}
    assert task.dataset["fr-en"]["test"]["corpus"]["text"][:] == ["one", "two"]


ROWS = [
    ("cat", ["the cat purrs"], ["a dog barks", "the cat purrs ", "a cow moos", "a dog barks"]),
    ("dog cow", ["a dog barks", "a cow moos"], ["the cat purrs", "sheep bleat"]),
]


def test_equal_candidates_are_one_and_their_order_helps_nobody() -> None:
    split = Reranking("T", ROWS).dataset["default"]["test"]
    text = dict(zip(split["corpus"]["id"], split["corpus"]["text"], strict=True))
    assert sorted(text[d] for d in split["top_ranked"]["q0"]) == [
        "a cow moos",
        "a dog barks",
        "the cat purrs",
    ]
    assert {text[d] for d in split["relevant_docs"]["q1"]} == {"a dog barks", "a cow moos"}
    swapped = [(query, right[::-1], others[::-1]) for query, right, others in ROWS]
    assert Reranking("T", swapped).dataset["default"]["test"]["top_ranked"].keys() == {"q0", "q1"}
    again = Reranking("T", swapped).metadata.revision
    assert again == Reranking("T", ROWS).metadata.revision


def measured(task: mteb.AbsTask, embedder: Words) -> dict[str, Any]:
    from embedexp.evaluation.engine import run

    (score,) = run(embedder, [lambda: task], sizes={})
    return {"value": score.value, "subsets": score.subsets}


def test_reranking_is_the_mean_average_precision(embedder: Words) -> None:
    found = measured(task := Reranking("T", ROWS), embedder)["value"]
    split = task.dataset["default"]["test"]
    text = dict(zip(split["corpus"]["id"], split["corpus"]["text"], strict=True))
    expected = []
    for name, query in zip(split["queries"]["id"], split["queries"]["text"], strict=True):
        vector = embedder.encode([query], task="search_query")[0]
        ranked = split["top_ranked"][name]
        cosines = embedder.encode([text[d] for d in ranked], task="search_document") @ vector
        labels = [d in split["relevant_docs"][name] for d in ranked]
        expected.append(average_precision_score(labels, cosines))
    # mteb rounds to five decimals.
    assert found == pytest.approx(np.mean(expected), abs=1e-5)


def test_pairs_are_judged_by_average_precision(embedder: Words) -> None:
    pairs = [(f"{a} {i}", f"{b} {i}", a == b) for i in range(5) for a in "xyz" for b in "xyz"]
    found = measured(PairClassification("T", pairs), embedder)["value"]
    first, second = (embedder.encode([p[side] for p in pairs], task="x") for side in (0, 1))
    labels = [together for _, _, together in pairs]
    assert found >= average_precision_score(labels, (first * second).sum(1)) - 1e-6
    assert found == pytest.approx(1, abs=0.02)


def test_a_text_with_several_labels_is_right_when_all_are(embedder: Words) -> None:
    rows = [
        (f"{a} {b} {i}", sorted({a, b}))
        for i in range(10)
        for a, b in (("cat", "dog"), ("cat", "cow"), ("saw", "axe"), ("dog", "axe"))
    ]
    good = measured(MultilabelClassification("T", rows[:20], rows[20:]), embedder)["value"]
    bad = measured(MultilabelClassification("T", rows[:20], rows[20:]), Words(noise=30))["value"]
    assert good == pytest.approx(1, abs=0.02)
    assert bad < good - 0.3


def test_candidates_hold_the_own_gloss_once_and_near_senses(shipped: Heldout) -> None:
    senses = shipped.definitions[:500]
    found = material.candidates(senses, 50)
    word = {gloss: query.partition(":")[0] for _, query, gloss in senses}
    kind = {gloss: sense[0] for sense, _, gloss in senses}
    assert [query for query, _, _ in found] == [query for _, query, _ in senses[:50]]
    for query, (gloss,), others in found:
        assert gloss not in others
        assert len(set(others)) == material.CANDIDATES - 1
        same = [other for other in word if word[other] == query.partition(":")[0]]
        assert set(same) - {gloss} <= set(others)
        assert sum(kind[other] == kind[gloss] for other in others) >= len(others) - len(same)


def test_wrong_glosses_are_those_of_other_senses_and_no_gloss_comes_twice(
    shipped: Heldout,
) -> None:
    pairs = material.fitting(shipped.definitions[:400])
    own = {query: gloss for _, query, gloss in shipped.definitions}
    kind = {gloss: sense[0] for sense, _, gloss in shipped.definitions}
    assert all((own[query] == gloss) is fits for query, gloss, fits in pairs)
    assert all(kind[own[query]] == kind[gloss] for query, gloss, _ in pairs)
    assert set(Counter(gloss for _, gloss, _ in pairs).values()) == {1}
    assert sum(fits for *_, fits in pairs) == pytest.approx(len(pairs) / 2, rel=0.05)


def test_kinds_are_ancestors_that_tell_nouns_apart(shipped: Heldout) -> None:
    from embedexp.data.wordnet import taxonomy

    sense = {gloss: name for name, _, gloss in shipped.definitions}
    rows = material.kinds(shipped.definitions)
    counts = Counter(label for _, labels in rows for label in labels)
    nouns = sum(name[0] == "n" for name in sense.values())
    assert len(counts) > 5
    assert all(material.FREQUENT * nouns <= count < nouns for count in counts.values())
    for gloss, labels in rows:
        assert set(labels) <= set(taxonomy().path(sense[gloss])[:-1])
    train, test = material.halves(rows[:200])
    assert {label for _, ls in train for label in ls} == {label for _, ls in test for label in ls}


def test_every_built_in_task_is_of_a_type_of_mteb_and_repeats(shipped: Heldout) -> None:
    option = embedexp.compose(
        ["evaluation.max_queries=20", "evaluation.max_documents=60", "evaluation.max_examples=80"]
    ).evaluation
    assert isinstance(option, BuiltinEvaluation)
    types = {}
    for name, build in BUILDERS.items():
        task, again = build(shipped, option), build(shipped, option)
        assert task.metadata.name == name
        assert task.metadata.revision == again.metadata.revision
        types[name] = task.metadata.type
    assert set(types.values()) == {
        "Retrieval",
        "Reranking",
        "STS",
        "Classification",
        "MultilabelClassification",
        "PairClassification",
        "Clustering",
        "BitextMining",
    }
