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
    "WordNetReranking",
    "WordNetPairs",
    "WordNetKinds",
    "DjangoRetrieval",
    "EmojiRetrieval",
]


class NoEvaluation(Option):
    """No evaluation."""

    name: Literal["none"] = field("option")


class Measured(Option):
    """How a model is measured; null and {} leave it as it is."""

    before: bool = field("score the model before training too")
    prompts: dict[str, str] = field(
        "what stands around a text in place of the embedding's prompts, by NAME-query, NAME, "
        "TYPE-query, TYPE, query or document, NAME being an mteb task",
        without={},
    )
    query_tokens: int | None = field("longest search query", unit="tokens", ge=3, without=None)
    document_tokens: int | None = field(
        "longest text of any other kind", unit="tokens", ge=3, without=None
    )
    precision: Literal["float32", "float16", "bfloat16"] | None = field(
        "type of the weights", without=None
    )
    width: int | None = field(
        "keep only the first so many dimensions", unit="dimensions", ge=1, without=None
    )
    batch_tokens: int | None = field(
        "tokens embedded at once; null: 2,048 on a CPU, 8,192 elsewhere",
        unit="tokens",
        ge=1,
        identity=False,
    )


class BuiltinEvaluation(Measured):
    """mteb tasks over the built-in corpus' held-out part."""

    name: Literal["builtin"] = field("option")
    tasks: list[BuiltinTask] = field("built-in tasks, by name", min_length=1)
    heldout: bool = field("also retrieval over what the data keeps out of training")
    max_queries: int = field("queries per retrieval task", ge=10)
    max_documents: int = field("documents per retrieval task", ge=10)
    max_examples: int = field("texts or pairs per other task", ge=50)


class Instructions(Option):
    """A sentence before each text that says what its task is."""

    source: Literal["mteb", "llama_embed_nemotron"] = field(
        "whose sentences: those of mteb's tasks, or that model's over them"
    )
    template: str = field("what is made of one: {instruction}, and {text} unless it stands first")
    documents: bool = field("also before the documents of retrieval and reranking")
    overrides: dict[str, str] = field("sentences that go before, by the keys of prompts")


class MtebEvaluation(Measured):
    """Public benchmarks and tasks, as mteb has them."""

    name: Literal["mteb"] = field("option")
    benchmarks: list[str] = field("benchmarks, by mteb's names or the usual ones")
    tasks: list[str] = field("more tasks, by mteb's names; NAME[subset,...] for some subsets")
    types: list[str] = field("keep tasks of these types; [] keeps all")
    languages: list[str] = field(
        "keep subsets with one of these languages (ISO 639-3, as eng or eng-Latn); [] keeps all"
    )
    exclude: list[str] = field("tasks left out, by mteb's names")
    instructions: Instructions | None = field("sentences that say what a task is; null has none")
    shards: int = field("parts of the tasks, measured one by one", ge=1)
    shard: int | None = field(
        "measure only this part, counted from 0; null measures what is missing", ge=0
    )


Evaluation = Annotated[
    NoEvaluation | BuiltinEvaluation | MtebEvaluation, Field(discriminator="name")
]
