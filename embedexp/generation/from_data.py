"""Questions about the rows of a corpus: a query for a document, a translation of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.config import prompt_files

from . import languages, reading, shares
from .reading import InvalidError, Limits
from .work import Question

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config.schema.generate import FromData, GenerateQueriesStage, TranslateStage
    from embedexp.data.dataset import Corpus, Dataset

    from .answers import Answer

COPIED = 0.9
"""A query that makes up so much of its document was copied from it."""


@dataclass(frozen=True)
class Row:
    """A query and a document of the data, and the language and generator that are its share."""

    identity: str
    query: str
    document: str
    source: str
    language: str
    generator: str


def rows(option: FromData, seed: int, corpus: Corpus, source: str) -> Iterator[Row]:
    """The first rows of each dataset of pairs; languages and generators by their shares."""
    weights = {name: each.share for name, each in option.generators.items()}
    for dataset in _pairs(corpus):
        count = min(len(dataset), option.examples or len(dataset))
        codes = shares.assigned(option.languages, count, seed, "languages", dataset.name)
        writers = shares.assigned(weights, count, seed, "generators", dataset.name)
        for number in range(count):
            own = dataset.languages[number] if dataset.languages is not None else dataset.language
            yield Row(
                f"{dataset.name} {number}",
                dataset.queries[number],
                dataset.positives[number],
                own or source,
                codes[number],
                writers[number],
            )


def _pairs(corpus: Corpus) -> list[Dataset]:
    return [dataset for dataset in corpus.train if dataset.task == "retrieval"]


def translations(option: TranslateStage, seed: int, corpus: Corpus) -> Iterator[Question]:
    """A question for each query whose language is not the one asked for."""
    known = ("query", "language", "source")
    asked = prompt_files.template(option.prompt, "stage.prompt", known)
    for row in rows(option, seed, corpus, option.source_language):
        if row.language != row.source:
            text = asked.substitute(
                query=row.query,
                language=languages.name(row.language),
                source=languages.name(row.source),
            )
            yield Question(row.identity, row.generator, text, _Translation(option, row))


def untranslated(option: TranslateStage, seed: int, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Pairs whose share is the language that they are in: they stay as they are."""
    if option.pairs == "cross_lingual":
        for row in rows(option, seed, corpus, option.source_language):
            if row.language == row.source:
                yield {"query": row.query, "positive": row.document, "language": row.language}


@dataclass(frozen=True)
class _Translation:
    option: TranslateStage
    row: Row

    def __call__(self, answer: Answer) -> dict[str, Any]:
        limits = Limits(self.option.shortest, self.option.longest)
        found = reading.text(reading.fields(answer), "translation", limits, self.row.language)
        if reading.same(found, self.row.query) and len(self.row.query.split()) > 3:
            raise InvalidError("the translation is the query itself")  # names may well stay
        if self.option.pairs == "bitext":
            pair = {"query": self.row.query, "positive": found}
        else:
            pair = {"query": found, "positive": self.row.document}
        return {**pair, "source": self.row.query, "language": self.row.language}


def queries(option: GenerateQueriesStage, seed: int, corpus: Corpus) -> Iterator[Question]:
    """A question for each document."""
    known = ("document", "language", *option.attributes)
    asked = prompt_files.template(option.prompt, "stage.prompt", known)
    for row in rows(option, seed, corpus, ""):
        drawn = {
            name: shares.drawn(values, seed, name, row.identity)
            for name, values in option.attributes.items()
        }
        text = asked.substitute(drawn, document=row.document, language=languages.name(row.language))
        yield Question(row.identity, row.generator, text, _Query(option, row))


@dataclass(frozen=True)
class _Query:
    option: GenerateQueriesStage
    row: Row

    def __call__(self, answer: Answer) -> dict[str, Any]:
        limits = Limits(self.option.shortest, self.option.longest)
        query = reading.text(reading.fields(answer), "query", limits, self.row.language)
        asked, document = reading.normal(query), reading.normal(self.row.document)
        if asked in document and len(asked) >= COPIED * len(document):
            raise InvalidError("the query is the document")
        return {"query": query, "positive": self.row.document, "language": self.row.language}
