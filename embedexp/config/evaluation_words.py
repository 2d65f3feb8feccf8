"""What is measured, in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from . import catalogue
from .schema.evaluation import MtebEvaluation

if TYPE_CHECKING:
    from .schema.evaluation import Measured

SHOWN_TASKS = 12
"""More of them are told by their number."""


def evaluation_words(option: Measured) -> str:
    """The tasks of an option, and how they are measured where that is not as the model has it."""
    if isinstance(option, MtebEvaluation):
        words = [_public(option)]
    else:
        words = [", ".join(getattr(option, "tasks", ()))]
    changed = [f"{key} {getattr(option, key)}" for key in ("precision", "width")]
    changed = [text for text in changed if not text.endswith(" None")]
    for texts, tokens in (
        ("queries", option.query_tokens),
        ("documents", option.document_tokens),
    ):
        changed += [] if tokens is None else [f"{texts} to {tokens} tokens"]
    if option.prompts:
        changed.append(f"prompts by {', '.join(option.prompts)}")
    instructions = getattr(option, "instructions", None)
    if instructions is not None:
        changed.append(f"instructions of {instructions.source}")
    if changed:
        words.append("measured with " + ", ".join(changed))
    return "; ".join(words)


def _public(option: MtebEvaluation) -> str:
    names = catalogue.selected(option)
    types = Counter(catalogue.task_types().get(name, "unknown") for name in names)
    by_type = ", ".join(f"{count} {kind}" for kind, count in types.most_common())
    sources = [_benchmark(name) for name in option.benchmarks]
    text = " and ".join(sources) + ": " if sources else ""
    text += f"{len(names)} {'task' if len(names) == 1 else 'tasks'} ({by_type})"
    if len(names) <= SHOWN_TASKS:
        text += f": {', '.join(names)}"
    if option.exclude:
        text += f", without {', '.join(option.exclude)}"
    if option.languages:
        text += f", of them what is in {', '.join(option.languages)}"
    if option.shard is not None:
        text += f"; part {option.shard} of 0 to {option.shards - 1}"
    elif option.shards > 1:
        text += f"; in {option.shards} parts"
    return text


def _benchmark(name: str) -> str:
    canonical = catalogue.canonical(name)
    return name if canonical == name else f"{name} (mteb's {canonical})"
