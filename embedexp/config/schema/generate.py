"""Stages that have language models write training data."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import Option, field

Share = Annotated[float, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]


class Generator(Option):
    """One model behind an endpoint that speaks OpenAI's protocol."""

    url: str = field("the endpoint, up to /v1", identity=False)
    model: str = field("the model, as the endpoint calls it")
    key_variable: str | None = field(
        "environment variable with the key; null sends none",
        identity=False,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
    )
    share: float = field("its part of the work, relative to the others", gt=0)
    temperature: float = field("of sampling", ge=0)
    top_p: float = field("share of the probability that is sampled from", gt=0, le=1)
    output_tokens: int = field("longest answer", unit="tokens", ge=1)
    json_mode: bool = field("ask for response_format json_object")
    extra: dict[str, Any] = field("further fields of each request; null takes one out")


class Retries(Option):
    """What happens where the endpoint does not answer."""

    tries: int = field("requests for one answer before the run stops", ge=1, identity=False)
    first_wait: float = field("doubled from try to try", unit="seconds", ge=0, identity=False)
    longest_wait: float = field("no wait is longer", unit="seconds", ge=0, identity=False)
    timeout: float = field("for one answer", unit="seconds", gt=0, identity=False)


class Budget(Option):
    """What may be spent by the run, over all its starts."""

    requests: int | None = field("answers paid for; null: no limit", ge=1, identity=False)
    tokens: int | None = field(
        "of prompts and answers, as the endpoint counts; null: no limit", ge=1, identity=False
    )


class Generating(Option):
    """What all stages have that ask generators."""

    generators: dict[Name, Generator] = field("the models by name", min_length=1)
    attempts: int = field("answers asked for until one is valid", ge=1)
    concurrency: int = field("requests at a time", ge=1, identity=False)
    retries: Retries = field("where the endpoint does not answer")
    budget: Budget = field("what may be spent")
    shortest: int = field("shorter texts are invalid", unit="characters", ge=1)
    longest: int = field("longer texts are invalid", unit="characters", ge=1)


class GenerateStage(Generating):
    """Propose tasks, then write examples of them."""

    uses: ClassVar[tuple[str, ...]] = ("stage", "compute", "tracking", "scale")
    name: Literal["generate"] = field("option")
    kind: Literal["retrieval", "classification", "sts"] = field("what the examples teach")
    examples: int = field("examples to write", unit="examples", ge=1)
    tasks: int = field("tasks to propose", unit="tasks", ge=1)
    tasks_per_request: int = field("tasks of one answer", unit="tasks", ge=1)
    proposer: str | None = field("the generator that proposes for all; null: each for itself")
    negatives: int = field("hard negatives of an example, or wrong labels", ge=0)
    languages: dict[Name, Share] = field("shares of the languages of examples", min_length=1)
    attributes: dict[Name, list[str]] = field("one of each is drawn for an example")
    propose_prompt: str | None = field(
        "a file, or null: the kind's; its content counts", identity=False
    )
    example_prompt: str | None = field(
        "a file, or null: the kind's; its content counts", identity=False
    )


class FromData(Generating):
    """What stages have that start from the data group."""

    uses: ClassVar[tuple[str, ...]] = ("data", "stage", "compute", "tracking", "scale")
    examples: int | None = field("first so many rows of each dataset; null: all", ge=1)
    languages: dict[Name, Share] = field("shares of the languages asked for", min_length=1)
    prompt: str = field("shipped prompt or file; its content counts", identity=False)


class GenerateQueriesStage(FromData):
    """Write a query for each document of the data."""

    name: Literal["generate_queries"] = field("option")
    attributes: dict[Name, list[str]] = field("one of each is drawn for an example")


class TranslateStage(FromData):
    """Translate queries of the data, for cross-lingual pairs."""

    name: Literal["translate"] = field("option")
    source_language: str = field("of data that do not say theirs; such queries stay as they are")
    pairs: Literal["cross_lingual", "bitext"] = field(
        "translated query and document, or query and translated query"
    )
