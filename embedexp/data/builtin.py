"""`data=builtin`: WordNet, and for evaluation also the catalogues of Django and emoji."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError

from . import wordnet
from .dataset import Corpus, Dataset
from .hashing import shuffled
from .vendored import manifest, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from embedexp.config.schema.data import Builtin

TASKS = {
    "wordnet_definitions": "retrieval",
    "wordnet_classes": "classification",
    "wordnet_siblings": "clustering",
    "wordnet_similarity": "sts",
}


@dataclass(frozen=True)
class Heldout:
    """What no training example contains; any first so many entries are a fair sample.

    `definitions`: (id, query, gloss). `similarity`: (gloss, gloss, score in [0, 1]). `classes` and
    `clusters`: (gloss, label), with about as many glosses for each label. `django` and `emoji`: by
    language code, (text, the same in English); within a language every text occurs once.
    """

    definitions: list[tuple[str, str, str]]
    similarity: list[tuple[str, str, float]]
    classes: list[tuple[str, str]]
    clusters: list[tuple[str, str]]
    django: dict[str, list[tuple[str, str]]]
    emoji: dict[str, list[tuple[str, str]]]


def load(option: Builtin, cache_dir: str | Path | None = None) -> Corpus:
    """The training datasets that the option's tasks and weights ask for.

    Their held-out part is not in the corpus but in `heldout()`, as tasks of four kinds.

    Raises:
        UserError: nothing is left to train on, or a shipped file is damaged.
    """
    del cache_dir  # small enough to be held in memory
    train = []
    for name, weight in _in_use(option).items():
        dataset = _BUILDERS[name](wordnet.split(held_out=False))
        chosen = dataset.select(range(min(len(dataset), option.max_examples or len(dataset))))
        train.append(replace(chosen, weight=weight))
    return Corpus(tuple(train), fingerprint=fingerprint(option))


def heldout() -> Heldout:
    """The evaluation material; the same whatever is trained on."""
    members = wordnet.split(held_out=True)
    return Heldout(
        definitions=[
            (s.id, s.query, s.gloss) for s in shuffled(members, "definitions", lambda s: s.id)
        ],
        similarity=[(a.gloss, b.gloss, s) for a, b, s in wordnet.scored_pairs(members, 2000)],
        classes=wordnet.labelled(members, "nvar", at_least=20, at_most=60),
        clusters=wordnet.labelled(members, "nv", at_least=15, at_most=50),
        django=_parallel("django.json.xz"),
        emoji=_parallel("emoji.json.xz"),
    )


def fingerprint(option: Builtin) -> str:
    """SHA-256 of all built-in examples, read from the manifest."""
    del option  # tasks, weights and limits are in the config already
    return str(manifest()["fingerprint"])


def describe(option: Builtin) -> list[tuple[str, str, int | None]]:
    """Name, task and training examples of each dataset in use; reads only the manifest."""
    counts = manifest()["datasets"]
    limit = option.max_examples
    return [
        (name, TASKS[name], min(counts[name]["train"], limit or counts[name]["train"]))
        for name in _in_use(option)
    ]


def content_fingerprint() -> str:
    """SHA-256 of all built-in examples, computed from them: what the manifest must say."""
    digest = hashlib.sha256()
    for part in _content():
        digest.update(json.dumps(part, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def training_datasets() -> list[Dataset]:
    """All training datasets, whole."""
    members = wordnet.split(held_out=False)
    return [build(members) for build in _BUILDERS.values()]


_UNFILLED = ("teacher_scores", "language", "languages")


def _content() -> Iterator[Any]:
    # Fields that no built-in dataset fills are left out: the fingerprint is of the content.
    for dataset in training_datasets():
        fields = asdict(dataset)
        yield {name: fields[name] for name in fields if name not in _UNFILLED}
    yield asdict(heldout())


def _in_use(option: Builtin) -> dict[str, float]:
    weights: dict[str, float] = option.weights.model_dump()
    used = {n: w for n, w in weights.items() if w > 0 and TASKS[n] in option.tasks}
    if not used:
        raise UserError(
            f"data=builtin has nothing to train on for data.tasks=[{','.join(option.tasks)}]",
            hint="give one of its datasets a weight in data.weights: "
            + ", ".join(f"{name} ({task})" for name, task in TASKS.items()),
        )
    return used


def _definitions(members: Sequence[wordnet.Synset]) -> Dataset:
    order = shuffled(members, "definitions", lambda s: s.id)
    return Dataset(
        "wordnet_definitions", "retrieval", [s.query for s in order], [s.gloss for s in order]
    )


def _classes(members: Sequence[wordnet.Synset]) -> Dataset:
    order = shuffled(members, "classes", lambda s: s.id)
    return Dataset(
        "wordnet_classes", "classification", [s.gloss for s in order], [s.label for s in order]
    )


def _siblings(members: Sequence[wordnet.Synset]) -> Dataset:
    pairs = wordnet.siblings(members)
    return Dataset(
        "wordnet_siblings",
        "clustering",
        [a.gloss for a, _ in pairs],
        [b.gloss for _, b in pairs],
        groups=[a.parent or "" for a, _ in pairs],
    )


def _similarity(members: Sequence[wordnet.Synset]) -> Dataset:
    pairs = wordnet.scored_pairs(members, wordnet.TRAINING_PAIRS)
    return Dataset(
        "wordnet_similarity",
        "sts",
        [a.gloss for a, _, _ in pairs],
        [b.gloss for _, b, _ in pairs],
        scores=[score for _, _, score in pairs],
    )


_BUILDERS: dict[str, Callable[[Sequence[wordnet.Synset]], Dataset]] = {
    "wordnet_definitions": _definitions,
    "wordnet_classes": _classes,
    "wordnet_siblings": _siblings,
    "wordnet_similarity": _similarity,
}


def _parallel(name: str) -> dict[str, list[tuple[str, str]]]:
    """By language, (text, English) in shuffled order, without repeated texts on either side."""
    columns: dict[str, list[str | None]] = read_json(name)
    english = columns.pop("en")
    pairs: dict[str, list[tuple[str, str]]] = {}
    for language, texts in columns.items():
        kept: dict[str, str] = {}
        for text, source in zip(texts, english, strict=True):
            if text and source and text != source:
                kept.setdefault(text, source)
        pairs[language] = shuffled(kept.items(), "parallel", lambda pair: pair[1])
    return pairs
