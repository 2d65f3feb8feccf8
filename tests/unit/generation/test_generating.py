"""What the generating stages write, what they share out, and what they never ask twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import embedexp
from embedexp import data
from embedexp.config.errors import UserError
from embedexp.generation.languages import in_script
from embedexp.generation.shares import assigned, quotas

from .conftest import example, good, report, rows, run
from .server import Reply, prompt_of, serving

CONAN = {
    "en": 25, "zh": 12, "es": 8, "fr": 6, "ja": 6, "de": 5, "ru": 5, "it": 4, "pt": 4, "ar": 3,
    "ko": 3, "bn": 2, "da": 2, "sv": 2, "th": 2, "ms": 2, "tr": 2, "vi": 2, "nl": 2, "pl": 2,
    "hi": 2, "km": 1, "fi": 1, "he": 1, "hu": 1, "no": 1,
}  # fmt: skip
SECOND = (
    "+stage.generators.other={url: 'URL', model: large, key_variable: null, share: 3.0, "
    "temperature: 0.5, top_p: 1.0, output_tokens: 64, json_mode: false, extra: {}}"
)


def read(done, task, *more):
    """The examples as `data=jsonl` reads them."""
    path = done.path / "generated" / "examples.jsonl"
    overrides = ["data=jsonl", f"data.path={path}", f"data.task={task}", "data.holdout=0", *more]
    (dataset,) = data.load(embedexp.compose(overrides).data).train
    return dataset


def test_retrieval_examples_are_data(composed):
    with serving(good) as server:
        done = run(composed(server))
        assert server.most <= 4
    found = read(done, "retrieval", "data.columns.negatives=negatives")
    assert len(found) == 12
    assert [row["query"] for row in rows(done)] == list(found.queries)
    assert all(len(each) == 1 for each in found.negatives)
    tasks = (done.path / "generated" / "tasks.jsonl").read_text().splitlines()
    assert len(tasks) == 4
    used = Counter(row["task"] for row in rows(done))
    assert set(used.values()) == {3}  # in turn
    page = (done.path / "generated" / "report.md").read_text()
    assert "12 of 12 examples kept" in page


def test_classification_examples_have_labels_of_their_task(composed):
    def some(body, number):
        found = example(body)
        if "label" in found and number % 3 == 0:
            found["label"] = "nonsense"
        return Reply(json.dumps(found))

    with serving(some) as server:
        done = run(composed(server, "stage.kind=classification", "stage.attempts=6"))
    assert {row["positive"] for row in rows(done)} == {"praise"}  # as the task spells it
    assert set(report(done)["invalid_answers"]) == {"a label that the task does not have"}
    assert len(read(done, "classification")) == 12


def test_similar_pairs_have_every_score(composed):
    with serving(good) as server:
        done = run(composed(server, "stage.kind=sts", "stage.negatives=0"))
        asked = [prompt_of(body) for body in server.requests]
    assert Counter(row["score"] for row in rows(done)) == {s / 5: 2 for s in range(6)}
    assert sum("is 3." in prompt for prompt in asked) == 2
    assert len(read(done, "sts", "data.columns.score=score", "loss=cosent")) == 12


def test_generators_share_the_work_and_each_asks_its_own_model(composed):
    with serving(good) as server:
        second = SECOND.replace("URL", server.url)
        done = run(composed(server, second, "stage.proposer=main"))
        models = Counter(
            body["model"] for body in server.requests if "Propose" not in prompt_of(body)
        )
        proposers = {body["model"] for body in server.requests if "Propose" in prompt_of(body)}
        formats = {body["model"]: "response_format" in body for body in server.requests}
    assert models == {"small": 3, "large": 9}
    assert proposers == {"small"}
    assert formats == {"small": True, "large": False}
    assert Counter(row["generator"] for row in rows(done)) == {"main": 3, "other": 9}


def test_each_generator_proposes_for_itself_unless_one_does_for_all(composed):
    with serving(good) as server:
        done = run(composed(server, SECOND.replace("URL", server.url)))
    tasks = [
        json.loads(line)
        for line in (done.path / "generated" / "tasks.jsonl").read_text().splitlines()
    ]
    assert Counter(task["by"] for task in tasks) == {"main": 1, "other": 3}
    by = {task["task"]: task["by"] for task in tasks}
    assert all(by[row["task"]] == row["generator"] for row in rows(done))


def test_no_more_tasks_are_taken_than_were_asked_for(composed):
    def generous(body, number):
        found = example(body)
        if "tasks" in found:
            found["tasks"] += [f"{task}, and more of it" for task in found["tasks"]]
        return Reply(json.dumps(found))

    with serving(generous) as server:
        done = run(composed(server, "stage.tasks=5", "stage.tasks_per_request=3"))
    tasks = (done.path / "generated" / "tasks.jsonl").read_text().splitlines()
    assert len(tasks) == 5


def test_duplicates_are_dropped_and_counted(composed):
    def poor(body, number):
        found = example(body)
        if "query" in found and body["seed"] % 2:
            found["query"] = "  The same  QUERY "
        return Reply(json.dumps(found))

    with serving(poor) as server:
        done = run(composed(server))
    same = [
        row for row in rows(done) if row["query"].casefold().split() == ["the", "same", "query"]
    ]
    assert len(same) == 1
    assert report(done)["duplicates"] == 12 - len(rows(done)) > 0


def test_what_was_answered_is_not_asked_again_in_another_run(composed):
    with serving(good) as server:
        first = run(composed(server))
        asked = len(server.requests)
        again = run(composed(server, "name=again", "stage.shortest=3"))
        assert len(server.requests) == asked
        assert [r["query"] for r in rows(first)] == [r["query"] for r in rows(again)]
        assert report(again)["paid"] == {"answers": 0, "tokens": 0}
        run(composed(server, "stage.generators.main.temperature=0.3"))
        assert len(server.requests) == 2 * asked
    assert report(first)["paid"] == {"answers": 13, "tokens": 13 * 15}


@pytest.mark.parametrize(("limit", "most"), [("requests=5", 5), ("tokens=60", 7)])
def test_a_budget_is_kept_over_all_starts_and_can_be_raised(composed, limit, most):
    with serving(good) as server:
        config = composed(server, f"stage.budget.{limit}")
        for _ in range(2):
            with pytest.raises(UserError, match="the budget is used up"):
                run(config)
            assert len(server.requests) <= most
        done = run(composed(server))
        assert len(server.requests) == 13
    assert done.path.name == config.run_name  # the budget is no part of the identity
    assert len(rows(done)) == 12


def test_queries_are_translated_by_the_published_shares(composed, pairs):
    shares = embedexp.compose(["stage=translate", "stage.generators.main.model=m"]).stage.languages
    assert shares == CONAN
    chosen = [f"~stage.languages.{code}" for code in CONAN if code not in ("en", "de", "ru")]
    with serving(good) as server:
        done = run(composed(server, *pairs, *chosen, stage="translate"))
        asked = len(server.requests)
    found = Counter(row["language"] for row in rows(done))
    assert found == quotas({"en": 25, "de": 5, "ru": 5}, 40)
    assert asked == found["de"] + found["ru"]  # English queries stay as they are
    for row in rows(done):
        assert row["positive"].startswith("thing")
        assert (row["generator"] == "none") == (row["language"] == "en")
        assert row["language"] != "de" or row["query"] == f"(German) {row['source']}"
    assert len(read(done, "retrieval", "data.columns.language=language")) == 40


def test_a_translation_that_is_none_is_invalid(composed, pairs):
    def lazy(body, number):
        return Reply(json.dumps({"translation": prompt_of(body).split("\n\n")[1]}))

    keep = [f"~stage.languages.{code}" for code in CONAN if code not in ("fr", "ru")]
    with serving(lazy) as server:
        config = composed(server, *pairs, *keep, "stage.attempts=1", stage="translate")
        with pytest.raises(UserError, match="not one example is valid"):
            run(config)
    found = json.loads(
        (embedexp.runs.RunDirectory.of(config).path / "generated/report.json").read_text()
    )
    assert found["invalid_answers"] == {
        "the translation is the query itself": 22,
        "translation in another script than its language's": 18,
    }


def test_bitext_pairs_a_query_with_its_translation(composed, pairs):
    keep = [f"~stage.languages.{code}" for code in CONAN if code != "de"]
    with serving(good) as server:
        done = run(composed(server, *pairs, *keep, "stage.pairs=bitext", stage="translate"))
    assert all(row["positive"] == f"(German) {row['query']}" for row in rows(done))
    assert len(rows(done)) == 40


def test_documents_get_queries(composed, pairs):
    with serving(good) as server:
        done = run(composed(server, *pairs, "stage.examples=7", stage="generate_queries"))
        assert len(server.requests) == 7
        assert "thing 3 does 3" in " ".join(map(prompt_of, server.requests))
    assert [row["positive"] for row in rows(done)] == [f"thing {i} does {i}" for i in range(7)]


def test_a_prompt_is_a_file_whose_content_counts(composed, tmp_path, pairs):
    prompt = tmp_path / "mine.txt"
    prompt.write_text("Translate to $language for $$5.\n\n$query")
    keep = [f"~stage.languages.{code}" for code in CONAN if code != "de"]
    with serving(good) as server:
        config = composed(server, *pairs, *keep, f"stage.prompt={prompt}", stage="translate")
        run(config)
        assert "for $5." in prompt_of(server.requests[0])
        prompt.write_text("Translate to $language now.\n\n$query")
        assert (
            composed(server, *pairs, *keep, f"stage.prompt={prompt}", stage="translate").signature
            != config.signature
        )
        prompt.write_text("Translate to $langage")
        bad = composed(server, *pairs, *keep, f"stage.prompt={prompt}", stage="translate")
        with pytest.raises(UserError, match="langage"):
            run(bad)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["stage.generators.main.url=localhost:8000"], "is no address"),
        (["stage.generators.main.url=http://me:pw@host/v1"], "may hold a key"),
        (["+stage.generators.main.extra.api_key=x"], "may hold a key"),
        (["+stage.generators.main.extra.access_token=x"], "extra.access_token may hold a key"),
        (["+stage.generators.main.extra.meta={auth: {token: x}}"], "may hold a key"),
        (["stage.proposer=mian"], "did you mean main"),
        (["stage.kind=sts"], "no effect with stage.kind=sts"),
        (["stage.example_prompt=exmple_sts"], "did you mean example_sts"),
    ],
)
def test_contradictions_are_found_when_composing(overrides, words):
    with pytest.raises(UserError) as error:
        embedexp.compose(["stage=generate", "stage.generators.main.model=m", *overrides]).signature  # noqa: B018
    assert words in f"{error.value} {error.value.hint}"


def test_quotas_are_exact_and_their_order_is_not_that_of_the_shares():
    found = quotas(CONAN, 1000)
    assert sum(found.values()) == 1000
    assert all(abs(found[c] - 1000 * s / sum(CONAN.values())) < 1 for c, s in CONAN.items())
    names = assigned(CONAN, 1000, 0, "x")
    assert Counter(names) == {c: n for c, n in found.items() if n}
    assert names == assigned(CONAN, 1000, 0, "x") != assigned(CONAN, 1000, 1, "x")
    assert len(set(names[:50])) > 10


@pytest.mark.parametrize(
    ("text", "code", "right"),
    [
        ("Wie heißt das?", "de", True), ("как это называется", "ru", True),
        ("how is it called", "ru", False), ("これは何ですか", "ja", True),
        ("what is 東京", "zh", True), ("what is it", "zh", False), ("이것은 무엇", "ko", True),
        ("มันคืออะไร", "th", True), ("как", "en", False), ("12 + 5", "ru", True),
    ],
)  # fmt: skip
def test_scripts_tell_an_untranslated_text(text, code, right):
    assert in_script(text, code) is right
