"""Embedding: from hidden states to one vector per text."""

from __future__ import annotations

from typing import Literal

from .base import Option, field


class Prompts(Option):
    """Text put before the input, by instruction task."""

    search_query: str = field("before queries of retrieval")
    search_document: str = field("before documents of retrieval")
    classification: str = field("before texts of classification, pair and similarity tasks")
    clustering: str = field("before texts of clustering")


class Embedding(Option):
    """Pooling, prompts, lengths and width."""

    name: Literal["mean", "last_token"] = field("pooling")
    normalize: bool = field("scale vectors to length 1")
    width: int | None = field("keep only the first so many dimensions", unit="dimensions", ge=1)
    query_tokens: int = field("longest search query", unit="tokens", ge=3)
    document_tokens: int = field("longest text of any other kind", unit="tokens", ge=3)
    prompts: Prompts = field("text put before the input, by instruction task")
