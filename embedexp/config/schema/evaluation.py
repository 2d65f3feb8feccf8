"""Evaluation: what a model is measured on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

BuiltinTask = Literal[
    "WordNetDefinitions",
    "WordNetSimilarity",
    "WordNetClasses",
    "WordNetClusters",
    "DjangoBitext",
    "EmojiBitext",
]


class NoEvaluation(Option):
    """No evaluation."""

    name: Literal["none"] = field("option")


class BuiltinEvaluation(Option):
    """mteb tasks over the built-in corpus' held-out part."""

    name: Literal["builtin"] = field("option")
    tasks: list[BuiltinTask] = field("built-in tasks, by name", min_length=1)
    heldout: bool = field("also retrieval over what the data keeps out of training")
    before: bool = field("score the model before training too")
    max_queries: int = field("queries per retrieval task", ge=10)
    max_documents: int = field("documents per retrieval task", ge=10)
    max_examples: int = field("texts or pairs per other task", ge=50)


Evaluation = Annotated[NoEvaluation | BuiltinEvaluation, Field(discriminator="name")]
