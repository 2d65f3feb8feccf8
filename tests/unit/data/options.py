"""Valid options with small values, to be varied by keyword."""

from __future__ import annotations

from typing import Any

from embedexp.config.schema.data import Builtin, BuiltinWeights, Columns, Debian, Jsonl, StdlibCode
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


def jsonl(path: Any, *, task: Any = "retrieval", holdout: int = 0, **changes: Any) -> Jsonl:
    columns = {"query": "query", "positive": "positive"}
    columns |= {name: changes.pop(name, None) for name in ("negatives", "score", "group")}
    columns |= {name: changes.pop(name) for name in ("query", "positive") if name in changes}
    options = {"max_examples": None} | changes
    return Jsonl(
        name="jsonl",
        path=str(path),
        task=task,
        holdout=holdout,
        columns=Columns(**columns),
        **options,
    )


def debian(lists: Any, holdout: int = 0, max_examples: int | None = None) -> Debian:
    return Debian(name="debian", lists=str(lists), holdout=holdout, max_examples=max_examples)


def stdlib_code(holdout: int = 0, max_examples: int | None = None) -> StdlibCode:
    return StdlibCode(name="stdlib_code", holdout=holdout, max_examples=max_examples)


def embedding(query_tokens: int = 16, document_tokens: int = 32, **prompts: str) -> Mean:
    names = ("search_query", "search_document", "classification", "clustering")
    return Mean(
        name="mean",
        exclude_instruction=False,
        normalize=True,
        width=None,
        query_tokens=query_tokens,
        document_tokens=document_tokens,
        prompts=Prompts(**{name: prompts.get(name, "") for name in names}),
    )
