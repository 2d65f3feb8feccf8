from __future__ import annotations

from typing import Any

import pytest

from embedexp.embedding import Embedder, build_embedder

from ..backbone.options import model_config

TEXTS = [
    "a cat sat on the mat",
    "rain",
    "the quick brown fox jumps over the lazy dog and runs away from the bear",
    "",
    "to move very fast on foot",
    "a large body of water",
    "rain",
]

PROMPTS = {
    "search_query": "query: ",
    "search_document": "document: ",
    "classification": "class: ",
    "clustering": "cluster: ",
}


def build(*names: str, **changes: Any) -> Embedder:
    """An embedder of the named options, with group__key=value changed."""
    return build_embedder(
        model_config(*names, changes={key.replace("__", "."): v for key, v in changes.items()})
    )


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return TEXTS
