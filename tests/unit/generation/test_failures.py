"""What an endpoint may do wrong: each is survived, or told, and counted; keys stay secret."""

from __future__ import annotations

import json
import time

import pytest

from embedexp.config.errors import UserError
from embedexp.training.interrupt import StopRequest

from .conftest import example, good, report, rows, run
from .server import Reply, prompt_of, serving

KEY = "a-very-private-word-4711"
PROTOCOL = "an answer that is not of the protocol"


def once_in(faults):
    """The i-th request gets fault i, all later ones are answered well."""

    def reply(body, number):
        return faults[number]() if number < len(faults) else good(body, number)

    return reply


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda: Reply("busy", status=429, headers={"Retry-After": "0"}), "429 too many requests"),
        (lambda: Reply("oh", status=500), "status 500"),
        (lambda: Reply("oh", status=503), "status 503"),
        (lambda: None, "no connection"),
        (lambda: Reply(raw=b"<html>gateway</html>"), PROTOCOL),
        (lambda: Reply(raw=b'{"choices": []}'), PROTOCOL),
        (lambda: Reply(raw=b'{"choices": [{"mess'), PROTOCOL),
        (lambda: Reply(raw=b'{"choices": [{"message": null}]}'), PROTOCOL),
        (lambda: Reply(raw=b'{"choices": [{"message": {}}], "usage": [1]}'), PROTOCOL),
    ],
)
def test_what_passes_is_tried_again_and_counted(composed, fault, reason):
    with serving(once_in([fault, fault])) as server:
        done = run(composed(server, "stage.concurrency=1"))
    assert len(rows(done)) == 12
    assert report(done)["repeated_since_this_start"] == {"main": {reason: 2}}


def test_a_silent_endpoint_times_out(composed):
    def late():
        time.sleep(1.5)
        return Reply("{}")

    with serving(once_in([late])) as server:
        done = run(composed(server, "stage.retries.timeout=0.5", "stage.concurrency=1"))
    assert report(done)["repeated_since_this_start"] == {"main": {"timeout": 1}}


def test_retry_after_is_waited_for_and_no_wait_is_longer_than_allowed(composed):
    busy = [lambda: Reply("busy", status=429, headers={"Retry-After": "1"})]
    with serving(once_in(busy)) as server:
        began = time.monotonic()
        run(composed(server))
        assert time.monotonic() - began >= 1.0
    busy = [lambda: Reply("busy", status=429, headers={"Retry-After": "3600"})]
    with serving(once_in(busy)) as server:
        began = time.monotonic()
        run(composed(server, "stage.retries.longest_wait=0.1", "seed=1"))
        assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("", refusal="I cannot help with that"), "refusal"),
        (Reply("I'm sorry, but I can't write this."), "no JSON (a refusal in words?)"),
        (Reply('{"query": "what', finish="length"), "cut off at output_tokens"),
        (Reply("{}", finish="content_filter"), "filtered by the endpoint"),
        (Reply('{"query": "what", "positive": '), "no JSON object"),
        (Reply(""), "empty answer"),
        (Reply("{}"), "no query"),
        (Reply(json.dumps({"query": "a b", "positive": "A  B", "negatives": ["c d"]})),
         "the positive is the query"),
        (Reply(json.dumps({"query": "a b", "positive": "c d", "negatives": ["C d"]})),
         "a negative is the positive"),
        (Reply(json.dumps({"query": "a b", "positive": "c d", "negatives": []})),
         "fewer negatives than asked for"),
        (Reply(json.dumps({"query": "вопрос", "positive": "c d", "negatives": ["e f"]})),
         "query in another script than its language's"),
        (Reply("too long a prompt", status=400), "the endpoint did not take the request"),
    ],
)  # fmt: skip
def test_an_invalid_answer_is_asked_for_again_and_its_reason_counted(composed, reply, reason):
    bad = []

    def answer(body, number):
        if not prompt_of(body).startswith("Propose") and len(bad) < 2:
            bad.append(body)
            return reply
        return good(body, number)

    with serving(answer) as server:
        done = run(composed(server))
    assert report(done)["invalid_answers"] == {reason: 2}
    assert len(rows(done)) == report(done)["kept"] == 12


def test_an_example_without_a_valid_answer_is_dropped_after_its_attempts(composed):
    wrong = Reply('{"query": ""}')
    first = []

    def answer(body, number):
        prompt = prompt_of(body)
        if prompt.startswith("Propose"):
            return good(body, number)
        first.append(prompt)
        return wrong if prompt == first[0] else good(body, number)

    with serving(answer) as server:
        done = run(composed(server, "stage.attempts=2", "stage.concurrency=1"))
    found = report(done)
    assert found["invalid_answers"] == {"query too short": 2 * found["dropped"]}
    assert found["kept"] + found["dropped"] == 12
    assert found["dropped"] >= 1


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "does not accept the key"), (404, "does not know the model"), (400, "first request")],
)
def test_a_wrong_set_up_stops_at_once_and_says_what_to_mend(composed, monkeypatch, status, words):
    monkeypatch.setenv("SOME_WORDS", KEY)
    reply = Reply(f"Incorrect key provided: {KEY}", status=status)
    with serving(lambda *_: reply) as server:
        config = composed(server, "stage.generators.main.key_variable=SOME_WORDS")
        with pytest.raises(UserError, match=words) as error:
            run(config)
        assert len(server.requests) <= 4
    assert KEY not in str(error.value)
    _assert_secret(config)


def too_long(body, number):
    """An endpoint that rejects the prompt about one thing, at once, and needs time for others."""
    if "thing 6 does" in prompt_of(body):
        return Reply("too long a prompt", status=400)
    time.sleep(0.2)
    return good(body, number)


def test_a_prompt_that_is_rejected_before_any_answer_stops_nothing(composed, pairs):
    with serving(too_long) as server:
        config = composed(server, *pairs, "stage.concurrency=16", stage="generate_queries")
        found = report(run(config))
    assert (found["kept"], found["dropped"]) == (39, 1)
    assert found["invalid_answers"] == {"the endpoint did not take the request": 3}


def test_a_run_that_goes_on_knows_that_the_endpoint_has_answered(composed, pairs, monkeypatch):
    from embedexp.training.interrupt import InterruptedRunError

    asked = StopRequest.check

    def check(self):
        if len(server.requests) >= 6:
            raise InterruptedRunError("a test")
        asked(self)

    with serving(too_long) as server:
        config = composed(server, *pairs, "stage.concurrency=1", stage="generate_queries")
        monkeypatch.setattr(StopRequest, "check", check)
        with pytest.raises(InterruptedRunError):
            run(config)
        monkeypatch.setattr(StopRequest, "check", asked)
        found = report(run(config))  # the first prompt that is left is the one that is rejected
    assert (found["kept"], found["dropped"]) == (39, 1)


def test_an_endpoint_that_never_answers_stops_the_run_which_goes_on_later(composed):
    with serving(lambda *_: Reply("oh", status=500)) as server:
        config = composed(server, "stage.retries.tries=3")
        with pytest.raises(UserError, match="did not answer 3 times, at last: status 500"):
            run(config)
        server.reply = good
        assert len(rows(run(config))) == 12


def test_the_key_is_sent_and_is_in_no_file(composed, monkeypatch):
    monkeypatch.setenv("SOME_WORDS", KEY)

    def rude(body, number):
        if number == 1:
            return Reply(f"busy, dear {KEY}", status=429, headers={"Retry-After": "0"})
        return good(body, number)

    with serving(rude) as server:
        config = composed(server, "stage.generators.main.key_variable=SOME_WORDS")
        run(config)
        assert set(server.keys) == {f"Bearer {KEY}"}
    _assert_secret(config)


def test_without_its_key_a_run_does_not_start(composed, monkeypatch):
    monkeypatch.delenv("SOME_WORDS", raising=False)
    with serving(good) as server:
        config = composed(server, "stage.generators.main.key_variable=SOME_WORDS")
        with pytest.raises(UserError, match="SOME_WORDS holds no key"):
            run(config)
        assert server.requests == []


def test_a_stop_keeps_what_was_answered_and_is_seen_within_a_wait(composed, monkeypatch):
    from embedexp.training.interrupt import InterruptedRunError

    asked = StopRequest.check

    def check(self):
        if len(server.requests) >= 6:
            raise InterruptedRunError("a test")
        asked(self)

    with serving(good) as server:
        config = composed(server, "stage.concurrency=1")
        monkeypatch.setattr(StopRequest, "check", check)
        with pytest.raises(InterruptedRunError):
            run(config)
        before = len(server.requests)
        monkeypatch.setattr(StopRequest, "check", asked)
        assert len(rows(run(config))) == 12
        whole = len(server.requests)
    assert before == 6
    assert whole == 13  # one proposal, twelve examples, none twice


def _assert_secret(config):
    from pathlib import Path

    files = [p for p in Path(config.paths.runs).rglob("*") if p.is_file()]
    files += [p for p in Path(config.paths.cache).rglob("*") if p.is_file()]
    assert len(files) >= 4
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("opened", ["<think>", ""], ids=["by the model", "by its template"])
def test_thoughts_fences_and_words_around_the_object_do_no_harm(composed, opened):
    def wordy(body, number):
        text = json.dumps(example(body))
        return Reply(f"{opened}{{}} hm</think>Sure!\n```json\n{text}\n```\nAnything else?")

    with serving(wordy) as server:
        done = run(composed(server))
    assert report(done)["invalid_answers"] == {}
