"""Valid options with small values, to be varied by keyword."""

from __future__ import annotations

from typing import Any

from embedexp.config.schema.data import (
    Beir,
    Builtin,
    BuiltinWeights,
    Columns,
    Csv,
    Debian,
    HuggingFace,
    Jsonl,
    Parquet,
    StdlibCode,
)
from embedexp.config.schema.embedding import Mean, Prompts

WEIGHTS = {
    "wordnet_definitions": 4.0,
    "wordnet_classes": 1.0,
    "wordnet_siblings": 1.0,
    "wordnet_similarity": 1.0,
}
TASKS = ["retrieval", "classification", "clustering", "sts"]


def builtin(max_examples: int | None = None, tasks: Any = TASKS, **weights: float) -> Builtin:
    return Builtin(
        name="builtin",
        tasks=tasks,
        weights=BuiltinWeights(**(WEIGHTS | weights)),
        max_examples=max_examples,
    )


COLUMNS = (
    "query",
    "positive",
    "negatives",
    "score",
    "group",
    "language",
    "label",
    "teacher_scores",
    "prompt",
    "text",
)


def mapped(cls: Any, changes: dict[str, Any], **own: Any) -> Any:
    """An option of rows with mapped columns: these, or none beside query and positive."""
    columns = dict.fromkeys(COLUMNS) | {"query": "query", "positive": "positive"}
    columns |= {name: changes.pop(name) for name in COLUMNS if name in changes}
    given = {"task": "retrieval", "columns": Columns(**columns)} | own
    return cls(**given, **(ROWS | changes))


ROWS = {
    "bad_rows": "skip",
    "max_bad_share": 1.0,
    "max_characters": None,
    "holdout": 0,
    "max_examples": None,
}


def jsonl(path: Any, *, task: Any = "retrieval", **changes: Any) -> Jsonl:
    return mapped(Jsonl, changes, name="jsonl", path=str(path), task=task)


def csv(path: Any, *, delimiter: Any = None, header: bool = True, **changes: Any) -> Csv:
    own = {"delimiter": delimiter, "header": header, "task": changes.pop("task", "retrieval")}
    own["quoted"] = changes.pop("quoted", True)
    return mapped(Csv, changes, name="csv", path=str(path), **own)


def parquet(path: Any, *, task: Any = "retrieval", **changes: Any) -> Parquet:
    return mapped(Parquet, changes, name="parquet", path=str(path), task=task)


def huggingface(dataset: Any, *, split: str = "train", **changes: Any) -> HuggingFace:
    own = {name: changes.pop(name, None) for name in ("subset", "revision")}
    own["task"] = changes.pop("task", "retrieval")
    return mapped(
        HuggingFace, changes, name="huggingface", dataset=str(dataset), split=split, **own
    )


def beir(path: Any, *, split: str = "train", **changes: Any) -> Beir:
    return Beir(name="beir", path=str(path), split=split, **(ROWS | changes))


def debian(lists: Any, holdout: int = 0, max_examples: int | None = None) -> Debian:
    return Debian(name="debian", lists=str(lists), holdout=holdout, max_examples=max_examples)


def stdlib_code(holdout: int = 0, max_examples: int | None = None) -> StdlibCode:
    return StdlibCode(name="stdlib_code", holdout=holdout, max_examples=max_examples)


def embedding(query_tokens: int = 16, document_tokens: int = 32, **prompts: str) -> Mean:
    names = ("search_query", "search_document", "classification", "clustering")
    return Mean(
        name="mean",
        exclude_instruction=False,
        layers="last",
        projection=None,
        normalize=True,
        width=None,
        query_tokens=query_tokens,
        document_tokens=document_tokens,
        prompts=Prompts(**{name: prompts.get(name, "") for name in names}),
    )
