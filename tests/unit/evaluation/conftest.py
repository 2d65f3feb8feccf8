"""A small stand-in for the built-in material, and embedders that need no model."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pytest

from embedexp.config.schema.evaluation import BuiltinEvaluation
from embedexp.data.builtin import Heldout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ANIMALS = ["cat", "dog", "horse", "cow", "sheep", "goat", "lion", "tiger", "wolf", "bear"]
TOOLS = ["hammer", "saw", "drill", "wrench", "axe", "chisel", "file", "pliers", "plane", "vice"]


class Words:
    """Bag-of-words vectors: each word has a random direction, plus a little of each text's own.

    `calls` keeps what was encoded under which instruction.
    """

    def __init__(self, width: int = 64, noise: float = 0.01) -> None:
        self.width, self.noise = width, noise
        self.calls: list[tuple[str, list[str]]] = []

    def _direction(self, word: str) -> NDArray[np.float32]:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
        return np.random.default_rng(seed).standard_normal(self.width).astype(np.float32)

    def encode(self, texts: Sequence[str], *, task: str) -> NDArray[np.float32]:
        self.calls.append((task, list(texts)))
        sums = np.stack(
            [
                sum((self._direction(w) for w in text.split()), self.noise * self._direction(text))
                for text in texts
            ]
        )
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)


@pytest.fixture
def embedder() -> Words:
    return Words()


@pytest.fixture
def material() -> Heldout:
    labelled = [
        (f"{word} number {i} is a {kind}", kind)
        for i in range(8)
        for words, kind in ((ANIMALS, "animal"), (TOOLS, "tool"))
        for word in words
    ]
    return Heldout(
        definitions=[
            (f"{word}{i}", f"{word} {i}", f"the {word} with the number {i}")
            for i in range(10)
            for word in ANIMALS + TOOLS
        ],
        similarity=[
            (f"a {a}", f"{b} here", 1.0 if a == b else 0.25 if (a in TOOLS) == (b in TOOLS) else 0)
            for a in ANIMALS + TOOLS
            for b in (a, "dog", "saw", "axe")
        ],
        classes=labelled,
        clusters=labelled,
        django={
            "de": [(f"{word} {i} eins", f"{word} {i}") for i in range(10) for word in ANIMALS],
            "zh_Hans": [(f"{i} zwei {word}", f"{word} {i}") for i in range(10) for word in TOOLS],
        },
        emoji={"fr": [(f"le {word}", word) for word in ANIMALS + TOOLS]},
    )


@pytest.fixture
def option() -> BuiltinEvaluation:
    return BuiltinEvaluation(
        name="builtin",
        tasks=[
            "WordNetDefinitions",
            "WordNetSimilarity",
            "WordNetClasses",
            "WordNetClusters",
            "DjangoBitext",
            "EmojiBitext",
        ],
        heldout=True,
        before=True,
        max_queries=50,
        max_documents=100,
        max_examples=100,
        prompts={},
        query_tokens=None,
        document_tokens=None,
        precision=None,
        width=None,
        batch_tokens=8192,
    )
