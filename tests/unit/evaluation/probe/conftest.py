"""Small labelled tasks in the form of GLUE and XNLI, in a folder, and a probe of them."""

from __future__ import annotations

import json

import pytest

import embedexp

WORDS = ["river", "music", "bread", "stone", "winter", "letter", "garden", "engine"]
NLI = ["entailment", "neutral", "contradiction"]
LANGUAGES = {"en": "is", "de": "ist", "fr": "est"}


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def sentences(count, start=0):
    """Single sentences of two classes, told apart by a word."""
    for i in range(start, start + count):
        mark = ("bad", "good")[i % 2]
        yield {"sentence": f"the {WORDS[i % 7]} is {mark} {WORDS[i % 5]}", "label": i % 2}


def pairs(count, start=0, verb="is"):
    """Pairs of three classes, told apart by a word of the second."""
    marks = ("certainly", "maybe", "never")
    for i in range(start, start + count):
        first = f"the {WORDS[i % 8]} {verb} there"
        second = f"{marks[i % 3]} the {WORDS[(i + 1) % 8]}"
        yield {"premise": first, "hypothesis": second, "label": i % 3}


def scored(count, start=0):
    """Pairs with a number."""
    for i in range(start, start + count):
        a, b = WORDS[i % 8], WORDS[i % 8 if i % 2 else (i + 3) % 8]
        yield {"sentence1": f"a {a}", "sentence2": f"a {b}", "label": 5.0 * (i % 2)}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """GLUE's layout for three tasks, and XNLI's for three languages."""
    base = tmp_path_factory.mktemp("labelled")
    write(base / "glue/cola/train.jsonl", sentences(48))
    write(base / "glue/cola/validation.jsonl", sentences(20, 100))
    write(base / "glue/mnli/train.jsonl", pairs(48))
    write(base / "glue/mnli/validation_matched.jsonl", pairs(21, 60))
    write(base / "glue/mnli/validation_mismatched.jsonl", pairs(18, 90))
    write(base / "glue/stsb/train.jsonl", scored(32))
    write(base / "glue/stsb/validation.jsonl", scored(16, 50))
    write(base / "xnli/en/train.jsonl", pairs(48))
    write(base / "xnli/en/validation.jsonl", pairs(18, 60))
    for language, verb in LANGUAGES.items():
        write(base / f"xnli/{language}/test.jsonl", pairs(24, 90, verb))
    return base


@pytest.fixture
def composed(folder, tmp_path):
    """A probe of cola, mnli and, from its model, stsb."""

    def compose(*more, tasks=("cola", "mnli", "stsb")):
        glue = [f"stage.tasks.{name}.dataset={folder / 'glue'}" for name in tasks]
        only = [f"stage.only=[{','.join(tasks)}]"] if tasks else []
        return embedexp.compose(
            [
                "stage=probe", *only, *glue, "backbone=tiny",
                "backbone.dropout=0", "stage.head_dropout=0", "tracking=none", "stage.epochs=2",
                "stage.seeds=[0,1]", "stage.batch_sizes=[8]", "stage.learning_rates=[1e-3]",
                f"paths.runs={tmp_path / 'runs'}", f"paths.cache={tmp_path / 'cache'}", *more,
            ]
        )  # fmt: skip

    return compose
