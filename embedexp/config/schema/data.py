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
    """Which column of a row holds what; the shape of the data follows from those that are named.

    A column is named, or counted from 1 among those that no other key names (`label`, `labels`,
    `score` and `scores` aside). A name with `?` behind it may be missing.
    """

    query: str | int = field("the query, the first text, or the text that a label belongs to")
    positive: str | int | None = field("the positive or second text; a list of several positives")
    negatives: str | int | list[str] | None = field(
        "hard negatives: one column of texts or lists; several by a pattern with *, a list of "
        "names, or the position of the first"
    )
    score: str | int | None = field("graded similarity, a number")
    group: str | int | None = field("examples of one group are never negatives of each other")
    # It counts where it is named: `data.fingerprint` then has it.
    language: str | int | None = field("code of the row's language, such as en", identity=False)
    label: str | int | None = field("the class of the query's text, in the place of a positive")
    teacher_scores: str | list[str] | None = field(
        "a teacher's scores: one list, positives before negatives, or a list for each of the two"
    )
    prompt: str | int | None = field("text to be put before the query, as it stands")
    text: str | int | None = field("plain text for language modelling, in the place of all others")


class Rows(Option):
    """What happens to rows that cannot be used, and how many of the others are."""

    bad_rows: Literal["skip", "refuse"] = field("bad rows are skipped and counted, or an error")
    max_bad_share: float = field("more bad rows than this share are an error", ge=0, le=1)
    max_characters: int | None = field("rows with a longer text are bad", unit="characters", ge=1)
    holdout: int = field("examples kept out of training", unit="examples", ge=0)
    max_examples: int | None = field("use only the first so many", unit="examples", ge=1)


class MappedRows(Rows):
    """Rows whose columns are named in the config."""

    task: TrainingTask = field("what the examples teach")
    columns: Columns = field("which column of a row holds what")


class Jsonl(MappedRows):
    """Rows of JSON-lines files."""

    name: Literal["jsonl"] = field("option")
    path: str = field("the file, or a pattern of several", identity=False)  # content counts instead


class Csv(MappedRows):
    """Rows of comma- or tab-separated files."""

    name: Literal["csv"] = field("option")
    path: str = field("the file, or a pattern of several", identity=False)  # content counts instead
    delimiter: str | None = field(
        "between cells; null takes a tab for .tsv, else a comma", min_length=1, max_length=1
    )
    header: bool = field("the first line names the columns; else they have only positions")
    quoted: bool = field(
        "quotation marks may enclose a cell with line ends and delimiters; else they are text"
    )


class Parquet(MappedRows):
    """Rows of Parquet files."""

    name: Literal["parquet"] = field("option")
    path: str = field("the file, or a pattern of several", identity=False)  # content counts instead


class HuggingFace(MappedRows):
    """Rows of a Hugging Face dataset."""

    name: Literal["huggingface"] = field("option")
    dataset: str = field("hub name, or a folder of save_to_disk", identity=False)  # see fingerprint
    subset: str | None = field("its configuration on the hub; null where it has one only")
    split: str = field("its split")
    revision: str | None = field("branch, tag or commit on the hub; null takes the newest")


class Beir(Rows):
    """Relevance judgements of a BEIR folder."""

    name: Literal["beir"] = field("option")
    path: str = field("folder of corpus, queries and qrels", identity=False)  # content counts
    split: str = field("its split: the judgements of qrels/SPLIT.tsv")


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


Source = Builtin | Jsonl | Csv | Parquet | HuggingFace | Beir | Debian | StdlibCode


class Each(Option):
    """How much of a source there is in a mixture, and what is said of it."""

    count: int | None = field("so many of its examples; null for all", unit="examples", ge=1)
    share: float | None = field("its part of the total, relative to the other shares", gt=0)
    weight: float = field("times the weights of its datasets", ge=0)
    language: str = field("code of its language; empty for what the source says")


class Part(Each):
    """A source of a mixture."""

    data: Annotated[Source, Field(discriminator="name")] = field("any other data option")


class Mixture(Option):
    """Several sources together."""

    name: Literal["mixture"] = field("option")
    sources: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], Part] = field(
        "the sources by name"
    )
    # Its values stand in the sources, where they count.
    each: Each = field("what a source has that does not say otherwise", identity=False)
    total: int | None = field("examples of all sources with shares", unit="examples", ge=1)
    one_dataset_per_task: bool = field("sources of the same task act as one dataset")


Data = Annotated[Source | Mixture, Field(discriminator="name")]
