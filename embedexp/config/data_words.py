"""The data of an experiment in words: which columns are read, and what is left out."""

from __future__ import annotations

from typing import Any


def data_words(data: Any) -> str:
    """Columns, held-out examples and the policy for bad rows; empty for data without rows."""
    if not hasattr(data, "bad_rows"):
        return ""
    parts = [_columns(data.columns, data.task)] if hasattr(data, "columns") else []
    if data.name == "beir":
        parts.append(f"judgements of {data.split} above 0")
    parts.append(f"{data.holdout:,} held out" if data.holdout else "none held out")
    if data.max_examples is not None:
        parts.append(f"at most {data.max_examples:,} for training")
    share = f", up to {data.max_bad_share:.3g} of all" if data.bad_rows == "skip" else ""
    parts.append(f"bad rows {'skipped' if share else 'refused'}{share}")
    return "; ".join(parts)


def _columns(columns: Any, task: str) -> str:
    """Such as `question -> answer, hard negatives negative_*`."""
    if columns.text is not None:
        return f"plain texts {_name(columns.text)}"
    query = _name(columns.query)
    if columns.prompt is not None:
        query = f"{_name(columns.prompt)} + {query}"
    if columns.label is not None:
        label = _name(columns.label)
        return f"pairs of {query} of one {label}" if task == "clustering" else f"{query} -> {label}"
    words = [f"{query} {'~' if task == 'sts' else '->'} {_name(columns.positive)}"]
    for key, what in (
        ("negatives", "hard negatives"),
        ("score", "score"),
        ("group", "group"),
        ("language", "language"),
        ("teacher_scores", "teacher's scores"),
    ):
        value = getattr(columns, key)
        if value is not None and (key != "score" or task == "sts"):
            words.append(f"{what} {_name(value)}")
    return ", ".join(words)


def _name(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(_name, value))
    return f"column {value}" if isinstance(value, int) else str(value).removesuffix("?")
