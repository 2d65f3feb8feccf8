"""The sizes of an experiment: parameters, examples, epochs, tokens. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .language_words import longest_example

if TYPE_CHECKING:
    from .experiment import Config


@dataclass(frozen=True)
class Figures:
    """What can be said about a training run before it starts."""

    datasets: tuple[tuple[str, str, int | None], ...]
    """Name, task and number of examples of each dataset in use; None where it is not known."""
    examples_seen: int
    epochs: float | None
    """Examples seen over examples there are; None where the latter is not known."""
    most_tokens: int
    """Upper bound of the tokens that go through the model: no text is longer than its limit."""


def figures(config: Config) -> Figures:
    """Sizes of a training run; raises `UserError` where the data cannot be described."""
    from embedexp.data import describe

    datasets = tuple(describe(config.data))
    counts = [count for _, _, count in datasets if count is not None]
    seen = config.training.steps * config.batching.size
    known = len(counts) == len(datasets) and sum(counts) > 0
    negatives = getattr(config.negatives, "count", 0)
    query, document = config.embedding.query_tokens, config.embedding.document_tokens
    # Only search queries have the shorter limit; the first text of other tasks has the other one.
    first = query if {task for _, task, _ in datasets} <= {"retrieval"} else max(query, document)
    texts = first + (1 + negatives) * document
    if (longest := longest_example(config)) is not None:
        texts = longest
        known = known and config.stage.name == "sft"  # blocks are counted when they are made
    return Figures(datasets, seen, seen / sum(counts) if known else None, seen * texts)


def parameters(config: Config) -> dict[str, int]:
    """Total, active and embedding parameters of the model."""
    from embedexp.backbone.counts import parameter_counts

    return parameter_counts(config)


def human(count: float) -> str:
    """A count as people say it: `22.6M`, `980`, `1.2B`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{letter}"
    return f"{count:.3g}" if isinstance(count, float) else str(count)
