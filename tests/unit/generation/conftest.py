"""Stages that ask a local server."""

from __future__ import annotations

import json

import pytest

import embedexp

from .server import Reply, prompt_of


def example(body):
    """A right answer to any of the shipped prompts; another for each seed."""
    prompt, seed = prompt_of(body), body["seed"]
    if prompt.startswith("Propose"):
        count = int(prompt.split()[1])
        tasks = [f"Given a claim about {seed} {i}, retrieve evidence" for i in range(count)]
        if "classification" in prompt:
            labels = ["praise", "blame", "neither"]
            return {"tasks": [{"task": task, "labels": labels} for task in tasks]}
        return {"tasks": tasks}
    if prompt.startswith("Translate"):
        text = prompt.split("\n\n")[1]
        language = prompt.split(" to ")[1].split(".")[0]
        if language == "Russian":
            return {"translation": f"перевод {seed}"}
        return {"translation": f"({language}) {text}"}
    if prompt.startswith("A document"):
        return {"query": f"which thing number {seed}?"}
    if prompt.startswith("A classification task"):
        return {"text": f"a fine text {seed}", "label": "Praise", "wrong_labels": ["blame"]}
    if prompt.startswith("A task"):
        return {"text1": f"one {seed}", "text2": f"two {seed}"}
    return {
        "query": f"what is {seed}", "positive": f"it is number {seed}",
        "negatives": [f"it was number {seed}"],
    }  # fmt: skip


def good(body, number):
    """The reply of an endpoint without faults."""
    return Reply(json.dumps(example(body)))


@pytest.fixture
def composed(tmp_path):
    """A generating stage of 12 examples that asks `server`."""

    def compose(server, *more, stage="generate"):
        sized = {"generate": ["stage.examples=12", "stage.tasks=4"]}.get(stage, [])
        return embedexp.compose(
            [
                f"stage={stage}", *sized, f"stage.generators.main.url={server.url}",
                "stage.generators.main.model=small", "stage.retries.first_wait=0.01",
                "stage.concurrency=4", "tracking=none", f"paths.runs={tmp_path / 'runs'}",
                f"paths.cache={tmp_path / 'cache'}", *more,
            ]
        )  # fmt: skip

    return compose


@pytest.fixture
def pairs(tmp_path):
    """Overrides for 40 pairs of data."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        {"query": f"what does thing {i} do", "positive": f"thing {i} does {i}"} for i in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["data=jsonl", f"data.path={path}", "data.holdout=0"]


def run(config):
    """The run of a config."""
    return embedexp.run(config, quiet=True)


def rows(done):
    """The examples that it wrote."""
    text = (done.path / "generated" / "examples.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def report(done):
    """Its counts."""
    return json.loads((done.path / "generated" / "report.json").read_text())
