"""evaluation=mteb: which tasks a name means, and that one task's failure loses no other."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

import mteb
import numpy as np
import pytest
import torch
from mteb.cache import ResultCache

from embedexp.config import catalogue, compose
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder
from embedexp.evaluation import Failure, Score, ScoreFile, engine, evaluate
from embedexp.evaluation.encoder import Encoder
from embedexp.evaluation.engine import content_hash
from embedexp.evaluation.measurement import Measurement
from embedexp.evaluation.mteb import part, tasks
from embedexp.evaluation.names import names
from embedexp.evaluation.prompts import Prompts
from embedexp.evaluation.sharing import cost, shares
from embedexp.evaluation.subject import Subject

from .conftest import Words
from .public import TASKS, Both, Pairs, Search, Search2, Unreachable, option

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = import_module("mteb.get_tasks")._TASKS_REGISTRY  # the package's is a function
    for name, cls in TASKS.items():
        monkeypatch.setitem(registry, name, cls)
    monkeypatch.setattr(Unreachable, "reachable", False)
    monkeypatch.setattr(Pairs, "loads", [])


# -- names


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("MTEB(eng, v1)", 56),
        ("MTEB(eng, classic)", 56),
        ("MTEB(eng, v2)", 41),
        ("MTEB(Multilingual, v2)", 131),
        ("MMTEB", 131),
        ("C-MTEB", 31),
        ("BEIR", 15),
        ("MIRACL", 1),
        ("MKQA", 1),
    ],
)
def test_benchmarks_have_the_published_number_of_tasks(name: str, count: int) -> None:
    found = tasks(option(benchmarks=[name], tasks=[]))
    assert len({task.metadata.name for task in found}) == len(found) == count
    assert [task.metadata.name for task in found] == list(
        catalogue.selected(option(benchmarks=[name], tasks=[]))
    )


def test_mteb_v1_has_the_datasets_per_type_of_motes_table_1() -> None:
    found = tasks(option(benchmarks=["MTEB(eng, v1)"], tasks=[]))
    kinds = [task.metadata.type for task in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "Retrieval": 15,
        "Classification": 12,
        "Clustering": 11,
        "Reranking": 4,
        "PairClassification": 3,
        "STS": 10,
        "Summarization": 1,
    }


def test_the_written_names_are_those_of_mteb() -> None:
    written = json.loads(catalogue.PATH.read_text("utf-8"))
    if written["mteb"] != mteb.__version__:
        pytest.skip(f"names of mteb {written['mteb']}, installed is {mteb.__version__}")
    assert names() == written
    usual = {*catalogue.USUAL_BENCHMARKS.values()}
    assert usual <= set(written["benchmarks"])
    assert {name for group in catalogue.USUAL_TASKS.values() for name in group} <= set(
        catalogue.task_types()
    )


def test_a_benchmark_keeps_its_own_subsets_even_under_a_filter_of_languages() -> None:
    def subsets(**changed: Any) -> dict[str, list[str]]:
        found = tasks(option(benchmarks=["MTEB(eng, v2)"], tasks=[], types=["STS"], **changed))
        return {task.metadata.name: task.hf_subsets for task in found}

    plain = subsets()
    assert plain["STS22.v2"] == ["en"]
    assert plain["STS17"] == ["en-en"]
    assert subsets(languages=["eng"]) == plain
    with pytest.raises(UserError, match="no task is left"):
        subsets(languages=["deu"])
    # mteb's own objects, which all callers share, are as before.
    assert {t.metadata.name: t.hf_subsets for t in mteb.get_benchmark("MTEB(eng, v2)").tasks}[
        "STS22.v2"
    ] == ["en"]


def test_tasks_are_filtered_by_type_language_and_name() -> None:
    german = tasks(
        option(
            benchmarks=["MTEB(Multilingual, v2)"], tasks=[], types=["STS"], languages=["deu-Latn"]
        )
    )
    assert {task.metadata.name: task.hf_subsets for task in german} == {
        "GermanSTSBenchmark": ["default"],
        "STS17": ["en-de"],
        "STS22.v2": ["de", "de-en", "de-fr", "de-pl"],
    }
    some = tasks(option(tasks=["STS22[en, es]", "SciFact", "NFCorpus"], exclude=["NFCorpus"]))
    assert [(task.metadata.name, task.hf_subsets) for task in some] == [
        ("STS22", ["en", "es"]),
        ("SciFact", ["default"]),
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"benchmarks": ["MTEB(eng, v9)"]}, "did you mean MTEB"),
        ({"tasks": ["SciFacts"]}, "did you mean SciFact?"),
        ({"tasks": ["STS22[enn]"]}, "did you mean en"),
        ({"tasks": ["CIFAR10"]}, "texts alone"),
        ({"benchmarks": ["MTEB(eng, v2)"], "tasks": ["STS22.v2"]}, "different splits or subsets"),
    ],
)
def test_wrong_names_and_mixed_forms_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        tasks(option(**{"tasks": [], **changed}))
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


# -- scores


def mteb_says(embedder: Any, name: str, **chosen: Any) -> float:
    """The score by mteb alone, through an encoder with no revision of its own."""
    encoder = Encoder(Subject(embedder), revision="x")
    task = TASKS[name]()
    task.load_data()
    result = mteb.evaluate(encoder, task, cache=None, show_progress_bar=False, **chosen)
    return float(result.task_results[0].get_score())


def test_a_score_is_mtebs_own_mean_over_splits_and_subsets(registered: None) -> None:
    (score,) = evaluate(Words(), option(tasks=["PublicSTS"]))
    assert score.value == mteb_says(Words(), "PublicSTS")
    assert set(score.subsets) == {
        f"{split}/{subset}" for split in ("validation", "test") for subset in ("en", "de-en")
    }
    assert score.value == pytest.approx(np.mean(list(score.subsets.values())))
    assert len(set(score.subsets.values())) == 4
    assert score.languages["test/de-en"] == ["deu-Latn", "eng-Latn"]
    assert (score.type, score.metric, score.domains) == ("STS", "cosine_spearman", ("Web",))


def test_a_failing_task_loses_no_other_and_is_alone_measured_again(
    registered: None, tmp_path: Path
) -> None:
    failures: list[Failure] = []
    heard: list[Score] = []
    found = evaluate(
        Words(), option(), output=tmp_path, on_failure=failures.append, on_task=heard.append
    )
    assert [score.task for score in found] == ["PublicSTS", "PublicSearch"]
    assert failures == [
        Failure("PublicGone", "Classification", "ConnectionError: the hub does not answer")
    ]
    file = ScoreFile(tmp_path)
    assert file.read("after") == found == heard
    assert file.failed("after") == failures
    assert file.failed("before") == []

    Unreachable.reachable = True
    again = Words()
    scores = evaluate(again, option(), output=tmp_path, on_failure=failures.append)
    assert [score.task for score in scores] == ["PublicSTS", "PublicGone", "PublicSearch"]
    assert [scores[0], scores[2]] == found  # seconds included: not measured anew
    assert len(failures) == 1
    assert {task for task, _ in again.calls} == {"classification"}
    assert ScoreFile(tmp_path).failed("after") == []
    assert ScoreFile(tmp_path).read("after") == scores


def test_a_stop_after_a_retried_task_keeps_the_scores_of_the_later_ones(
    registered: None, tmp_path: Path
) -> None:
    evaluate(Words(), option(), output=tmp_path, on_failure=lambda _: None)
    Unreachable.reachable = True

    def stop(score: Score) -> None:
        if score.task == "PublicGone":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Words(), option(), output=tmp_path, on_failure=lambda _: None, on_task=stop)
    kept = {score.task for score in ScoreFile(tmp_path).read("after")}
    assert kept == {"PublicSTS", "PublicGone", "PublicSearch"}


def test_without_a_listener_a_failure_ends_the_evaluation(registered: None) -> None:
    with pytest.raises(ConnectionError):
        evaluate(Words(), option())


def test_a_score_that_is_no_number_is_a_failure(registered: None) -> None:
    class Nothing(Words):
        def encode(self, texts: Any, *, task: str) -> Any:
            return np.full((len(texts), 4), np.nan, np.float32)

    failures: list[Failure] = []
    evaluate(Nothing(), option(tasks=["PublicSTS"]), on_failure=failures.append)
    assert [failure.task for failure in failures] == ["PublicSTS"]


def test_what_on_texts_raises_stops_the_evaluation(registered: None) -> None:
    from embedexp.training.interrupt import InterruptedRunError

    def stop(task: str, count: int) -> None:
        raise InterruptedRunError("SIGTERM")

    failures: list[Failure] = []
    with pytest.raises(InterruptedRunError):
        evaluate(Words(), option(), on_failure=failures.append, on_texts=stop)
    assert failures == []


def test_mtebs_own_results_are_kept_with_every_metric(registered: None, tmp_path: Path) -> None:
    (score,) = evaluate(Words(), option(tasks=["PublicSTS"]), output=tmp_path)
    result = mteb.TaskResult.from_disk(tmp_path / "mteb" / "after" / "PublicSTS.json")
    assert result.get_score() == pytest.approx(score.value, abs=1e-6)
    assert "cosine_pearson" in result.scores["test"][0]


def test_vectors_of_documents_are_not_kept_and_others_not_beyond_their_task(
    registered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    forget = Encoder.forget

    def counted(self: Encoder) -> None:
        kept.append(sum(len(vectors) for vectors in self._vectors.values()))
        forget(self)
        assert not self._vectors

    monkeypatch.setattr(Encoder, "forget", counted)
    evaluate(Words(), option(tasks=["PublicSTS", "PublicSearch"]))
    assert len(kept) == 2
    assert kept[1] == 10  # ten queries, not the ten documents


# -- the trap: mteb finds results by the names of model and revision


def tiny(*overrides: str) -> Any:
    return build_embedder(compose(["backbone=tiny", *overrides]))


def revision(embedder: Any, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> str:
    """The revision under which a model is shown to mteb."""
    seen: list[str] = []
    measure = mteb.evaluate

    def spy(model: Any, task: Any, **rest: Any) -> Any:
        seen.append(model.mteb_model_meta.revision)
        return measure(model, task, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(mteb, "evaluate", spy)
        evaluate(embedder, option(**{"tasks": ["PublicSTS"], **changed}))
    return seen[0]


def test_mtebs_cache_mixes_up_models_of_one_revision_and_never_those_of_ours(
    registered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tiny(), tiny()
    with torch.no_grad():
        next(second.parameters()).mul_(torch.randn_like(next(second.parameters())))
    assert content_hash(first) != content_hash(second)
    cache = ResultCache(tmp_path)

    def through_the_cache(embedder: Any, revision: str) -> float:
        encoder = Encoder(Subject(embedder), revision=revision)
        task = TASKS["PublicSTS"]()
        task.load_data()
        result = mteb.evaluate(encoder, task, cache=cache, show_progress_bar=False)
        return float(result.task_results[0].get_score())

    old = through_the_cache(first, "same")
    mixed_up = through_the_cache(second, "same")
    assert mixed_up == pytest.approx(old, abs=1e-6)  # the trap: mteb gives the first's score
    assert abs(mixed_up - mteb_says(second, "PublicSTS")) > 1e-3
    ours = [revision(model, monkeypatch) for model in (first, second)]
    assert ours[0] != ours[1]
    fresh = [through_the_cache(first, ours[0]), through_the_cache(second, ours[1])]
    assert fresh[0] == pytest.approx(mteb_says(first, "PublicSTS"), abs=1e-9)
    assert fresh[1] == pytest.approx(mteb_says(second, "PublicSTS"), abs=1e-9)
    assert fresh[0] != fresh[1]


def test_whatever_changes_vectors_changes_revision_and_fingerprint(
    registered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"prompts": {"STS": "similar: "}},
        {"document_tokens": 8},
        {"precision": "bfloat16"},
        {"width": 32},
    ]
    found = [evaluate(tiny(), option(tasks=["PublicSTS"], **change))[0] for change in changes]
    assert len({score.fingerprint for score in found}) == len(changes)
    assert len({revision(tiny(), monkeypatch, **change) for change in changes}) == len(changes)
    same = evaluate(tiny(), option(tasks=["PublicSTS"], batch_tokens=64))[0]
    assert same.fingerprint == found[0].fingerprint
    # A prompt of another task leaves this one's score alone.
    elsewhere = evaluate(tiny(), option(tasks=["PublicSTS"], prompts={"PublicSearch": "q: "}))[0]
    assert elsewhere.fingerprint == found[0].fingerprint
    # Other subsets are another measurement.
    english = evaluate(tiny(), option(tasks=["PublicSTS[en]"]))[0]
    assert english.fingerprint != found[0].fingerprint


# -- shards


def test_shards_share_the_work_evenly_and_miss_nothing() -> None:
    costs = [100, 3, 50, 50, 1, 2, 48, 4]
    for shards in (1, 2, 3, 9):
        found = shares(costs, shards)
        assert sorted(place for places in found for place in places) == list(range(len(costs)))
        burdens = [sum(costs[i] for i in places) for places in found]
        ideal = max(sum(costs) / shards, max(costs))
        assert max(burdens) <= (4 / 3) * ideal  # what longest-first promises


def test_the_cost_of_a_task_is_its_text_in_the_subsets_that_count() -> None:
    whole, english = mteb.get_task("STS22"), mteb.get_task("STS22", hf_subsets=["en"])
    assert 0 < cost(english) < cost(whole) / 3
    statistics = mteb.get_task("SciFact").metadata.descriptive_stats["test"]
    assert cost(mteb.get_task("SciFact")) == statistics["number_of_characters"]
    parts = mteb.get_task("CQADupstackRetrieval").metadata.tasks
    assert cost(mteb.get_task("CQADupstackRetrieval")) == sum(map(cost, parts))


def test_shards_measure_their_part_and_the_whole_takes_it_over(registered: None) -> None:
    asked = option(tasks=["PublicSTS", "PublicSearch"], shards=2)
    parts = [asked.model_copy(update={"shard": shard}) for shard in (0, 1)]
    assert [len(part(tasks(asked), each)) for each in parts] == [1, 1]
    measured = [score for each in parts for score in evaluate(Words(), each)]
    whole = Words()
    found = evaluate(whole, asked, done=measured)
    assert [score.task for score in found] == ["PublicSTS", "PublicSearch"]
    assert sorted(s.task for s in measured) == sorted(s.task for s in found)
    assert all(score in measured for score in found)
    assert whole.calls == []


def test_a_task_of_several_is_their_mean_under_the_prompts_of_its_name() -> None:
    embedder = build_embedder(compose(["backbone=tiny"])).eval()

    def measured(task: mteb.AbsTask, **prompts: str) -> Score:
        asked = Measurement(embedder, option(), Prompts(prompts))
        (found,) = engine.run(asked, [lambda: task], sizes={}, keep=False)
        return found

    plain = measured(Both())
    parts = [measured(Search()).value, measured(Search2()).value]
    assert plain.value == pytest.approx(np.mean(parts))
    prompt = "cat dog horse cow saw: "
    asked = measured(Both(), **{"PublicBoth-query": prompt})
    one = measured(Search(), **{"PublicSearch-query": prompt})
    assert asked.value == pytest.approx(one.value)
    assert asked.value != pytest.approx(plain.value)
    assert asked.fingerprint != plain.fingerprint
