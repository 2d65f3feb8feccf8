"""The names of tasks: what an example teaches, and which instruction a text carries."""

from __future__ import annotations

INSTRUCTIONS: tuple[str, ...] = ("search_query", "search_document", "classification", "clustering")
"""Instruction tasks (MoTE's four experts), in the order of the integer task ids."""

TRAINING_TASKS: tuple[str, ...] = ("retrieval", "classification", "clustering", "sts")
"""What an example can teach."""

QUERY, POSITIVE, NEGATIVE = 0, 1, 2
"""Roles of a text in a batch; hard negative k has the role NEGATIVE + k."""


def instruction(training_task: str, *, is_query: bool) -> str:
    """The instruction task of a text, from its example's task and its side.

    Similarity pairs use the classification instruction, as MoTE does for STS.
    """
    if training_task == "retrieval":
        return "search_query" if is_query else "search_document"
    return "clustering" if training_task == "clustering" else "classification"
