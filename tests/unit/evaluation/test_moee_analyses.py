"""MoEE's analyses and its official "sum", against loops, scikit-learn and mteb's own evaluation."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import mteb
import numpy as np
import pytest
import torch
import yaml
from mteb.models import ModelMeta
from scipy import stats
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import v_measure_score

import embedexp
from embedexp.config.errors import UserError
from embedexp.config.locations import conf_dir
from embedexp.embedding import Embedder
from embedexp.evaluation.analysis.moee_sum import (
    SummedClassifier,
    SummedKMeans,
    averaged_predictions,
    mean_groups,
    mean_labels,
)
from embedexp.evaluation.analysis.prompt_robustness import correlations, means
from embedexp.evaluation.analysis.router_agreement import agreement, groups
from embedexp.evaluation.analysis.router_vectors import parts, with_prompt, with_source
from embedexp.evaluation.label_tasks import Classification, Clustering
from embedexp.routing.upcycling import RoutedExperts

TEXTS = ["a small cat", "the court of law", "bread and butter for tea", "rivers run"]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return embedexp.build_embedder(embedexp.compose(["backbone=tiny", "routing=moe"])).eval()


def test_parts_are_the_last_tokens_state_and_its_routing_weights(embedder: Embedder) -> None:
    hidden, routing = parts(with_source(embedder, "concat"), TEXTS, task="classification")
    layers = [m for m in embedder.modules() if isinstance(m, RoutedExperts)]
    assert routing.shape == (4, sum(len(layer.experts) for layer in layers))
    for start in range(0, routing.shape[1], len(layers[0].experts)):
        rows = routing[:, start : start + len(layers[0].experts)]
        assert rows.sum(1) == pytest.approx(np.ones(4), abs=1e-5)
    alone = with_source(embedder, "hidden_state").encode(TEXTS, task="classification")
    assert hidden == pytest.approx(alone, abs=1e-5)
    standardized = parts(
        with_source(embedder, "concat"), TEXTS, task="classification", standardize="batch"
    )[1]
    assert standardized.mean(0) == pytest.approx(np.zeros(routing.shape[1]), abs=1e-4)


def test_sources_of_one_model_share_weights_and_watch_its_routers_once(embedder: Embedder) -> None:
    first = with_source(embedder, "concat", normalize=True)
    second = with_source(first, "routing_weights", normalize=True)
    third = with_source(first, "sum", alpha=0.5)
    concat, routing = (
        first.encode(TEXTS, task="clustering"),
        second.encode(TEXTS, task="clustering"),
    )
    width = routing.shape[1]
    expected = concat[:, -width:] / np.linalg.norm(concat[:, -width:], axis=1, keepdims=True)
    assert routing == pytest.approx(expected, abs=1e-5)
    assert third.width == first.width == concat.shape[1]
    assert next(third.model.parameters()) is next(embedder.model.parameters())
    # Making the others has not changed what the first one is.
    assert first.encode(TEXTS, task="clustering") == pytest.approx(concat, abs=1e-6)


def test_the_sum_of_similarities_is_that_of_the_two_cosines(embedder: Embedder) -> None:
    alpha = 0.7
    summed = with_source(embedder, "sum", alpha=alpha).encode(TEXTS, task="classification")
    hidden, routing = parts(with_source(embedder, "concat"), TEXTS, task="classification")
    for i, j in combinations(range(4), 2):
        cosines = [
            v[i] @ v[j] / np.sqrt((v[i] @ v[i]) * (v[j] @ v[j]))
            for v in (hidden.astype(float), routing.astype(float))
        ]
        norm = np.sqrt((summed[i] @ summed[i]) * (summed[j] @ summed[j]))
        expected = (cosines[0] + alpha * cosines[1]) / (1 + alpha)
        assert summed[i] @ summed[j] / norm == pytest.approx(expected, abs=1e-5)


def test_a_prompt_stands_around_every_text(embedder: Embedder) -> None:
    model = with_source(embedder, "concat")
    asked = with_prompt(model, "In one word, {text}:").encode(TEXTS, task="classification")
    given = model.encode([f"In one word, {text}:" for text in TEXTS], task="classification")
    assert asked == pytest.approx(given, abs=1e-5)
    assert model.config.embedding.prompts.classification == ""


def test_a_model_without_experts_is_refused() -> None:
    dense = embedexp.build_embedder(embedexp.compose(["backbone=tiny"]))
    with pytest.raises(UserError, match="routes no tokens to experts"):
        with_source(dense, "concat")


def test_agreement_by_counting() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 60)
    second = np.where(rng.random(60) < 0.6, (first + 1) % 3, rng.integers(0, 3, 60))
    found = agreement(first.tolist(), second.tolist())
    pairs = list(combinations(range(60), 2))
    one = {(i, j) for i, j in pairs if first[i] == first[j]}
    other = {(i, j) for i, j in pairs if second[i] == second[j]}
    assert found["Jaccard"] == pytest.approx(len(one & other) / len(one | other))
    best = max(
        np.mean(np.asarray(order)[first] == second)
        for order in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    )
    assert found["exact matching"] == pytest.approx(best)
    entropy = [stats.entropy(np.bincount(x)) for x in (first, second)]
    joint = stats.entropy(np.bincount(first * 3 + second))
    assert found["NMI"] == pytest.approx((sum(entropy) - joint) / np.mean(entropy))


def test_equal_groupings_agree_whatever_their_names() -> None:
    assert agreement([0, 0, 1, 1, 2], [2, 2, 0, 0, 1]) == pytest.approx(
        {"AMI": 1, "NMI": 1, "Jaccard": 1, "exact matching": 1}
    )


def test_groups_find_separate_clouds() -> None:
    clouds = np.repeat(np.eye(3) * 10, 10, axis=0)
    found = groups(clouds + np.random.default_rng(0).normal(size=(30, 3)), 3, restarts=3, seed=0)
    assert agreement(found, np.repeat([0, 1, 2], 10).tolist())["exact matching"] == 1


def test_correlations_are_spearmans_and_means_leave_out_one_prompt_with_itself() -> None:
    rng = np.random.default_rng(0)
    rows = {f"{kind}{i}": rng.normal(size=20).tolist() for kind in "hr" for i in range(3)}
    matrix = correlations(rows)
    names = list(rows)
    for i, j in combinations(range(6), 2):
        expected = np.corrcoef(*(stats.rankdata(rows[names[k]]) for k in (i, j)))[0, 1]
        assert matrix[i, j] == matrix[j, i] == pytest.approx(expected)
    found = means(matrix, 3)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    assert found["HS-HS"] == pytest.approx(np.mean([matrix[i, j] for i, j in pairs]))
    assert found["RW-RW"] == pytest.approx(np.mean([matrix[3 + i, 3 + j] for i, j in pairs]))
    assert found["RW-HS"] == pytest.approx(np.mean([matrix[3 + i, j] for i, j in pairs]))


def test_the_prompts_of_the_analysis_are_those_of_the_prompt_files() -> None:
    own = yaml.safe_load((conf_dir() / "analysis" / "prompt_robustness.yaml").read_text())[
        "prompts"
    ]
    files = {path.stem: path for path in (conf_dir() / "prompts").glob("*.yaml")}
    known = {name.removeprefix("moee_"): path for name, path in files.items() if "moee" in name}
    known["prompt_eol"] = files["prompt_eol"]
    assert len(own) == 9
    assert own == {n: yaml.safe_load(known[n].read_text())["classification"] for n in known}


def test_labels_between_two_classifiers_are_cut_as_the_official_code_does() -> None:
    first, second = np.array([2, 3, 5, 0]), np.array([2, 4, 2, 1])
    assert mean_labels(first, second, 1.0).tolist() == [2, 3, 3, 0]
    assert mean_labels(first, second, 3.0).tolist() == [2, 3, 2, 0]


def test_groups_are_those_of_equal_averages() -> None:
    first, second = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    found = mean_groups(first, second, 1.0)
    averages = (first + second) / 2
    for i, j in combinations(range(5), 2):
        assert (found[i] == found[j]) == (averages[i] == averages[j])


class Clouds:
    """An encoder for mteb: two parts, of which each knows half of what a text is about."""

    def __init__(self) -> None:
        self.mteb_model_meta = ModelMeta.create_empty({"name": "embedexp/clouds", "revision": "1"})

    def vector(self, text: str) -> np.ndarray[Any, Any]:
        kind, number = int(text.split()[0]), int(text.split()[1])
        rng = np.random.default_rng(number)
        hidden, routing = np.zeros(4), np.zeros(3)
        hidden[kind % 2], routing[kind // 2] = 3, 3
        return np.concatenate([hidden + rng.normal(size=4), routing + rng.normal(size=3)])

    def encode(self, inputs: Any, **_: Any) -> np.ndarray[Any, Any]:
        return np.stack([self.vector(text) for batch in inputs for text in batch["text"]])

    def similarity(self, first: Any, second: Any) -> Any:
        return torch.as_tensor(first) @ torch.as_tensor(second).T

    def similarity_pairwise(self, first: Any, second: Any) -> Any:
        return (torch.as_tensor(first) * torch.as_tensor(second)).sum(-1)


ROWS = [(f"{i % 4} {i}", f"kind {i % 4}") for i in range(80)]


def measured(task: mteb.AbsTask) -> dict[str, Any]:
    found = mteb.evaluate(
        Clouds(), task, cache=None, co2_tracker=False, show_progress_bar=False
    ).task_results[0]
    return dict(found.scores["test"][0])


def test_mteb_clusters_by_the_sum_inside_the_block_only() -> None:
    plain = measured(Clustering("Plain", ROWS))["v_measure"]
    with averaged_predictions(4, 1.0):
        summed = measured(task := Clustering("Summed", ROWS))["v_measures"]["Level 0"]
    assert measured(Clustering("Plain", ROWS))["v_measure"] == plain
    # The same by hand, with mteb's samples of the texts.
    rng = random.Random(task.seed)
    vectors, labels = np.stack([Clouds().vector(t) for t, _ in ROWS]), [kind for _, kind in ROWS]
    for value in summed:
        chosen = rng.choices(range(80), k=task.max_documents_per_cluster)
        arguments = {"n_clusters": 4, "batch_size": 512, "n_init": 1, "random_state": task.seed}
        one, other = (
            MiniBatchKMeans(init="k-means++", **arguments).fit_predict(part[chosen])
            for part in (vectors[:, :4], vectors[:, 4:])
        )
        together = [f"{(a + b) / 2}" for a, b in zip(one, other, strict=True)]
        assert value == pytest.approx(v_measure_score([labels[i] for i in chosen], together))


def test_mteb_classifies_by_the_sum_inside_the_block_only() -> None:
    train, test = ROWS[:60], ROWS[60:]
    plain = measured(Classification("Plain", train, test))["accuracy"]
    with averaged_predictions(4, 1.0):
        summed = measured(Classification("Summed", train, test))["accuracy"]
    assert measured(Classification("Plain", train, test))["accuracy"] == plain
    # Kinds 0 to 3 are told apart by both parts together, but not by an average of label numbers.
    assert plain > 0.9
    assert summed < plain


def test_a_summed_classifier_is_two_fitted_apart() -> None:
    vectors = np.stack([Clouds().vector(text) for text, _ in ROWS])
    labels = [i % 4 for i in range(80)]
    model = SummedClassifier(LogisticRegression(), 4, 1.0).fit(vectors[:60], labels[:60])
    one, other = (
        LogisticRegression().fit(part[:60], labels[:60]).predict(part[60:])
        for part in (vectors[:, :4], vectors[:, 4:])
    )
    expected = [(a + b) // 2 for a, b in zip(one, other, strict=True)]
    assert model.predict(vectors[60:]).tolist() == expected


def test_summed_k_means_keeps_its_labels() -> None:
    vectors = np.stack([Clouds().vector(text) for text, _ in ROWS])
    model = SummedKMeans(4, 1.0, n_clusters=2, n_init=1, random_state=0)
    assert model.fit_predict(vectors).tolist() == model.labels_.tolist()
