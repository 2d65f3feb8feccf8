"""From the names in `data.columns` to the columns that are there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from embedexp.config.errors import nearest, shorten

from .rows import BadRowError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from embedexp.config.schema.data import Columns

LABELS = frozenset({"label", "labels", "score", "scores"})
"""Columns that sentence-transformers takes for labels, wherever they stand."""


class MissingColumnError(BadRowError):
    """A column that is named and not there."""

    def __init__(self, key: str, name: object, there: Sequence[str], free: Sequence[str]) -> None:
        listed = shorten(", ".join(map(str, there)) or "none", 120)
        near = nearest(str(name), free) or next(iter(free), None)
        super().__init__(
            "missing field",
            f'no field "{name}"; there are: {listed}',
            f"did you mean data.columns.{key}={near}?" if near else None,
        )


class Names(NamedTuple):
    """The columns of a row, by what they hold."""

    query: str
    positive: str | None
    negatives: tuple[str, ...]
    score: str | None
    group: str | None
    language: str | None
    label: str | None
    teacher_scores: tuple[str | None, ...]  # of two, one may be missing
    prompt: str | None
    text: str | None

    def wanted(self) -> set[str]:
        """All of them."""
        one = (self.query, self.positive, self.score, self.group, self.language, self.label)
        others = (self.prompt, self.text, *self.negatives, *self.teacher_scores)
        return {name for name in (*one, *others) if name}


def resolve(columns: Columns, there: Sequence[str]) -> Names:
    """The columns that are named, among those that are there.

    Raises:
        MissingColumnError: one is missing that has no `?` behind its name.
    """
    return _Resolver(columns, there).names()


def wanted(columns: Columns, there: Sequence[str]) -> Collection[str]:
    """Which of a file's columns have to be read, so that `resolve` finds the same in them alone.

    All of them where positions count, which leaving one out would shift, and where one is missing,
    which the rows then tell.
    """
    values = columns.model_dump().values()
    if any(isinstance(value, int) for value in values):
        return there
    try:
        return resolve(columns, there).wanted()
    except MissingColumnError:
        return there


def patterns_optional(columns: Columns) -> Columns:
    """The same for rows after the first: in some, none of the numbered columns may be filled."""
    asked = columns.negatives
    if isinstance(asked, str) and "*" in asked:
        return columns.model_copy(update={"negatives": asked.removesuffix("?") + "?"})
    return columns


class _Resolver:
    def __init__(self, columns: Columns, there: Sequence[str]) -> None:
        self.columns, self.there = columns, there
        named = {name.removesuffix("?") for name in _named(columns)}
        patterns = [_pattern(name) for name in named if "*" in name]
        self.free = [
            name
            for name in there
            if name not in named and not any(pattern.fullmatch(name) for pattern in patterns)
        ]
        self.positions = [name for name in self.free if name not in LABELS]

    def names(self) -> Names:
        """All of them; those that the shape of the data leaves out are not looked for."""
        c = self.columns
        if c.text is not None:
            text = self.one("text", c.text)
            return Names(text or "", None, (), None, None, None, None, (), None, text)
        teachers = [c.teacher_scores] if isinstance(c.teacher_scores, str) else c.teacher_scores
        scores = [self.one("teacher_scores", name) for name in teachers or ()]
        labelled = c.label is not None
        return Names(
            self.one("query", c.query) or "",
            None if labelled else self.one("positive", c.positive),
            () if labelled else tuple(self.negatives()),
            self.one("score", c.score),
            self.one("group", c.group),
            self.one("language", c.language),
            self.one("label", c.label),
            () if labelled or not any(scores) else tuple(scores),
            self.one("prompt", c.prompt),
            None,
        )

    def one(self, key: str, name: str | int | None) -> str | None:
        """The column of a name or position; None where none is asked for or it may be missing."""
        if name is None:
            return None
        if isinstance(name, int):
            if 1 <= name <= len(self.positions):
                return self.positions[name - 1]
            raise MissingColumnError(key, name, self.there, self.free)
        plain = name.removesuffix("?")
        if name in self.there or plain in self.there:
            return name if name in self.there else plain
        if plain != name:
            return None
        raise MissingColumnError(key, name, self.there, self.free)

    def negatives(self) -> Iterator[str]:
        """The columns of hard negatives, those of a pattern in the order of their numbers."""
        asked = self.columns.negatives
        if isinstance(asked, int):
            yield from self.positions[max(0, asked - 1) :]
            return
        for name in [asked] if isinstance(asked, str) else asked or ():
            if "*" not in name:
                found = self.one("negatives", name)
                yield from [found] if found else []
                continue
            pattern = _pattern(name.removesuffix("?"))
            fitting = sorted(filter(pattern.fullmatch, self.there), key=_natural)
            if not fitting and not name.endswith("?"):
                raise MissingColumnError("negatives", name, self.there, self.free)
            yield from fitting


def _named(columns: Columns) -> Iterator[str]:
    for value in columns.model_dump().values():
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                yield name


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)


def _natural(name: str) -> list[tuple[int, Any]]:
    """`negative_10` behind `negative_9`."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts]
