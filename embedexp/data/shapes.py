"""What a row teaches: a pair, several of them, a labelled text, or plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import shorten

from .bad_rows import repeated
from .columns import Example
from .hashing import stable_hash
from .rows import BadRowError, text_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .bad_rows import Seen
    from .mapping import Names


class Cells:
    """Reads the values of a row by their type, and says what is wrong with them."""

    def __init__(self, max_characters: int | None, *, all_text: bool) -> None:
        self.longest, self.all_text = max_characters or math.inf, all_text

    def text(self, name: str, value: Any) -> str:
        """A text that is one, maybe empty.

        Raises:
            BadRowError: it is none, is too long, or holds what no text has.
        """
        if not isinstance(value, str):
            raise wrong_type(name, "text", value)
        if fault := text_problem(value):
            raise BadRowError(fault[0], f'the field "{name}" {fault[1]}')
        if len(value) > self.longest:
            raise BadRowError(
                f"more than {self.longest:,} characters",
                f'the field "{name}" has {len(value):,} characters',
                "data.max_characters allows longer ones",
            )
        return value

    def filled(self, name: str, value: Any) -> str:
        """A text that is not empty."""
        text = self.text(name, value)
        if not text.strip():
            raise BadRowError("empty text", f'the field "{name}" is empty')
        return text

    def texts(self, name: str, value: Any) -> list[str]:
        """A list of texts, or one of them; null, or an empty cell of a table, is none."""
        if value is None or (self.all_text and value == ""):
            return []
        if isinstance(value, str):
            return [self.text(name, value)]
        if not isinstance(value, list):
            raise wrong_type(name, "text or a list of texts", value)
        return [self.text(name, each) for each in value]

    def number(self, name: str, value: Any) -> float:
        """A finite number."""
        if self.all_text and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise wrong_type(name, "a finite number", value) from None
        number_like = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number_like or not math.isfinite(value):
            raise wrong_type(name, "a finite number", value)
        return float(value)

    def numbers(self, name: str, value: Any) -> list[float]:
        """A list of finite numbers; null in it is an unknown one, null in its place an empty list.

        One number is a list of one.
        """
        if value is None or (self.all_text and value == ""):
            return []
        if not isinstance(value, list):
            return [self.number(name, value)]
        return [math.nan if each is None else self.number(name, each) for each in value]

    def name(self, name: str, value: Any) -> str | None:
        """The name of a group or class: text or an integer; null or empty is none."""
        if value is None or value == "":
            return None
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise wrong_type(name, "text or an integer", value)
        return self.text(name, str(value))


def wrong_type(name: str, wanted: str, value: Any) -> BadRowError:
    """A field that holds something else."""
    shown = shorten(repr(value), 40)
    return BadRowError("wrong type", f'the field "{name}" must be {wanted}, not {shown}')


class Pairs:
    """One example for each positive of a row, each with all hard negatives."""

    def __init__(self, cells: Cells, *, graded: bool, drop: Callable[[], None]) -> None:
        self.cells, self.graded, self.drop = cells, graded, drop

    def __call__(self, fields: dict[str, Any], names: Names) -> Iterator[Example]:
        """The examples of a row.

        Raises:
            BadRowError: it cannot be used.
        """
        cells = self.cells
        query = _query(cells, fields, names)
        assert names.positive is not None
        positives = fields[names.positive]
        if not isinstance(positives, list):
            positives = [positives]
        positives = [cells.filled(names.positive, each) for each in positives]
        if not positives:
            raise BadRowError("empty text", f'the field "{names.positive}" is empty')
        negatives = [t for name in names.negatives for t in cells.texts(name, fields.get(name))]
        score = None
        if self.graded:
            assert names.score is not None
            score = cells.number(names.score, fields[names.score])
        group = cells.name(names.group, fields[names.group]) if names.group else None
        language = _language(cells, fields, names)
        scores = self._scores(fields, names, len(positives), len(negatives))
        kept = [
            place
            for place, text in enumerate(negatives)
            if text.strip() and text not in positives and text not in negatives[:place]
        ]
        for _ in range(len(negatives) - len(kept)):
            self.drop()
        chosen = tuple(negatives[place] for place in kept)
        for number, positive in enumerate(positives):
            teacher = None
            if scores is not None:
                rest = (scores[len(positives) + place] for place in kept)
                teacher = (scores[number], *rest)
            yield Example(query, positive, chosen, score, group, teacher, language)

    def _scores(
        self, fields: dict[str, Any], names: Names, positives: int, negatives: int
    ) -> list[float] | None:
        """The teacher's scores of all positives, then of all negatives."""
        columns = names.teacher_scores
        if not columns:
            return None
        lists = [self.cells.numbers(name, fields.get(name)) if name else [] for name in columns]
        if not any(lists):
            return None
        wanted = [positives, negatives] if len(lists) == 2 else [positives + negatives]
        # One side may have no scores at all: those texts then have none.
        lists = [
            found or ([math.nan] * count if len(columns) == 2 else found)
            for found, count in zip(lists, wanted, strict=True)
        ]
        for name, found, count in zip(columns, lists, wanted, strict=True):
            if len(found) != count:
                raise BadRowError(
                    "not one score for each text",
                    f'the field "{name}" has {len(found)} scores for {count} texts',
                )
        return [score for each in lists for score in each]


class Classes:
    """Labelled texts as queries of the names of their labels."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells

    def __call__(self, fields: dict[str, Any], names: Names) -> Iterator[Example]:
        """A text and its label; texts of one label are no negatives of each other."""
        label = _label(self.cells, fields, names)
        language = _language(self.cells, fields, names)
        yield Example(_query(self.cells, fields, names), label, group=label, language=language)


class Clusters:
    """Labelled texts in pairs: each text is in one pair, with the next of its label.

    So no text of a pair that is held out is met in training. The last text of a label with an odd
    number of them has no partner. Partners are of the same language, where rows say theirs.
    """

    def __init__(self, cells: Cells, seen: Seen) -> None:
        self.cells, self.seen = cells, seen
        self.waiting: dict[tuple[str, str | None], str] = {}

    def __call__(self, fields: dict[str, Any], names: Names) -> Iterator[Example]:
        """The pair that a text completes, if any."""
        label = _label(self.cells, fields, names)
        text = _query(self.cells, fields, names)
        if not self.seen.add(stable_hash("label", label, text)):
            raise repeated()
        language = _language(self.cells, fields, names)
        partner = self.waiting.pop((label, language), None)
        if partner is None:
            self.waiting[label, language] = text
        else:
            yield Example(partner, text, group=label, language=language)


def plain_text(cells: Cells, fields: dict[str, Any], names: Names) -> str:
    """The text of a row, for language modelling."""
    assert names.text is not None
    return cells.filled(names.text, fields[names.text])


def _query(cells: Cells, fields: dict[str, Any], names: Names) -> str:
    query = cells.filled(names.query, fields[names.query])
    if names.prompt and (prompt := fields.get(names.prompt)) is not None:
        return cells.text(names.prompt, prompt) + query
    return query


def _language(cells: Cells, fields: dict[str, Any], names: Names) -> str | None:
    if names.language is None:
        return None
    return cells.name(names.language, fields.get(names.language))


def _label(cells: Cells, fields: dict[str, Any], names: Names) -> str:
    assert names.label is not None
    label = cells.name(names.label, fields[names.label])
    if label is None or not label.strip():
        raise BadRowError("empty text", f'the field "{names.label}" is empty')
    return label
