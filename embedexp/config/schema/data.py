"""Data: where examples come from and what they teach."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

TrainingTask = Literal["retrieval", "classification", "clustering", "sts"]
Holdout = Annotated[int, Field(ge=0)]


class BuiltinWeights(Option):
    """How often each built-in dataset is drawn, relative to the others in use."""

    wordnet_definitions: float = field("retrieval: a word in a sentence -> its definition", ge=0)
    wordnet_classes: float = field("classification: a definition -> its lexicographer class", ge=0)
    wordnet_siblings: float = field("clustering: a definition -> one under the same hypernym", ge=0)
    wordnet_similarity: float = field("sts: two definitions and their similarity", ge=0)


class Builtin(Option):
    """WordNet, shipped with the package."""

    name: Literal["builtin"] = field("option")
    tasks: list[TrainingTask] = field("kinds of example to train on", min_length=1)
    weights: BuiltinWeights = field("how often each dataset is drawn")
    max_examples: int | None = field(
        "first so many examples of each dataset", unit="examples", ge=1
    )


class Columns(Option):
    """Which field of a line holds what."""

    query: str = field("the query, or the first text")
    positive: str = field("the positive, or the second text")
    negatives: str | None = field("a list of hard negatives")
    score: str | None = field("graded similarity")
    group: str | None = field("examples of one group are never negatives of each other")


class Jsonl(Option):
    """Pairs from a JSON-lines file."""

    name: Literal["jsonl"] = field("option")
    path: str = field("the file, .jsonl or .jsonl.gz", identity=False)  # its content counts instead
    task: TrainingTask = field("what the pairs teach")
    columns: Columns = field("which field of a line holds what")
    holdout: int = field("examples kept out of training", unit="examples", ge=0)
    max_examples: int | None = field("use only the first so many", unit="examples", ge=1)


class Debian(Option):
    """Package descriptions from this machine's package lists."""

    name: Literal["debian"] = field("option")
    lists: str = field(
        "folder of the package lists", identity=False
    )  # their content counts instead
    holdout: int = field("examples kept out of training", unit="examples", ge=0)
    max_examples: int | None = field("use only the first so many", unit="examples", ge=1)


class StdlibCode(Option):
    """Docstrings and code of the Python standard library."""

    name: Literal["stdlib_code"] = field("option")
    holdout: int = field("examples kept out of training", unit="examples", ge=0)
    max_examples: int | None = field("use only the first so many", unit="examples", ge=1)


Data = Annotated[Builtin | Jsonl | Debian | StdlibCode, Field(discriminator="name")]
