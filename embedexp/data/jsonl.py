"""`data=jsonl`: the user's own pairs, one JSON object a line."""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest, shorten

from .dataset import Corpus, Dataset
from .holdout import hold_out
from .lines import SUFFIXES, bad_line, existing, read_objects, text_problem

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config.schema.data import Columns, Jsonl

log = logging.getLogger(__name__)


def load(option: Jsonl) -> Corpus:
    """The pairs of the file, some of them held out.

    Pairs with an empty text, repeated pairs, and hard negatives that are empty or the pair's own
    positive are skipped and counted in a warning. Anything else that is wrong is refused.

    Raises:
        UserError: the file is missing or unreadable, or one of its lines lacks a field or has one
            of the wrong type; scored pairs without a column of scores.
    """
    graded = option.task == "sts"
    if graded and option.columns.score is None:
        raise UserError(
            "data.task=sts, but data.columns.score names no field",
            hint="set data.columns.score=FIELD",
        )
    file = existing(option.path, "data.path")
    rows = _Rows(file, option.columns if graded else _ungraded(option.columns))
    for number, line in read_objects(file):
        rows.add(number, line)
    rows.report()
    if not rows.queries:
        raise UserError(f"{file.name} has no pair of texts", where=f"in {file}")
    name = file.name.removesuffix(".gz").removesuffix(SUFFIXES[0])
    whole = Dataset(
        name,
        option.task,
        rows.queries,
        rows.positives,
        negatives=rows.negatives if option.columns.negatives else None,
        scores=rows.scores if graded else None,
        groups=rows.groups if option.columns.group else None,
    )
    train, heldout = hold_out(whole, option.holdout, option.max_examples)
    return Corpus((train,), heldout, fingerprint(option))


def fingerprint(option: Jsonl) -> str:
    """SHA-256 of the file's bytes."""
    with existing(option.path, "data.path").open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def describe(option: Jsonl) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; its number of examples would need reading."""
    file = existing(option.path, "data.path")
    return [(file.name.removesuffix(".gz").removesuffix(SUFFIXES[0]), option.task, None)]


def _ungraded(columns: Columns) -> Columns:
    """Grades are of no use elsewhere, which the checks of the config say."""
    return columns.model_copy(update={"score": None})


@dataclass
class _Rows:
    """The columns read so far, and what was skipped."""

    file: Path
    columns: Columns
    queries: list[str] = field(default_factory=list)
    positives: list[str] = field(default_factory=list)
    negatives: list[list[str]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    skipped: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, line: dict[str, Any]) -> None:
        """Check a line and keep its pair."""
        query = self._text(number, line, "query")
        positive = self._text(number, line, "positive")
        negatives = self._negatives(number, line, positive)
        score = self._score(number, line)
        group = self._group(number, line)
        if not query.strip() or not positive.strip():
            return self._skip("pairs with an empty text", number)
        if (query, positive) in self.seen:
            return self._skip("repeated pairs", number)
        self.seen.add((query, positive))
        self.queries.append(query)
        self.positives.append(positive)
        self.negatives.append(negatives)
        self.scores.append(score)
        self.groups.append(group)
        return None

    def report(self) -> None:
        """Say what was skipped."""
        for what, numbers in self.skipped.items():
            some = ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")
            log.warning("%s: skipped %d %s (lines %s)", self.file.name, len(numbers), what, some)

    def _skip(self, what: str, number: int) -> None:
        self.skipped.setdefault(what, []).append(number)

    def _field(self, number: int, line: dict[str, Any], column: str) -> Any:
        name = getattr(self.columns, column)
        if name in line:
            return line[name]
        there = shorten(", ".join(map(str, line)) or "none", 120)
        hint = None
        if not self.queries:  # where only later lines lack it the data is wrong, not the config
            taken = set(self.columns.model_dump(exclude={column}).values())
            free = [field for field in line if field not in taken]
            near = nearest(name, free) or next(iter(free), None)
            hint = f"did you mean data.columns.{column}={near}?" if near else None
        raise bad_line(self.file, number, f'no field "{name}"; there are: {there}', hint)

    def _text(self, number: int, line: dict[str, Any], column: str) -> str:
        value = self._field(number, line, column)
        self._check_text(number, column, value)
        return str(value)

    def _check_text(self, number: int, column: str, value: Any) -> None:
        name = getattr(self.columns, column)
        if not isinstance(value, str):
            raise self._wrong_type(number, name, "text", value)
        if problem := text_problem(value):
            raise bad_line(self.file, number, f'the field "{name}" {problem}')

    def _negatives(self, number: int, line: dict[str, Any], positive: str) -> list[str]:
        name = self.columns.negatives
        if name is None:
            return []
        values = self._field(number, line, "negatives")
        if not isinstance(values, list):
            raise self._wrong_type(number, name, "a list of texts", values)
        for value in values:
            self._check_text(number, "negatives", value)
        kept = [value for value in dict.fromkeys(values) if value.strip() and value != positive]
        for _ in range(len(values) - len(kept)):
            self._skip("hard negatives (empty, repeated, or the positive itself)", number)
        return kept

    def _score(self, number: int, line: dict[str, Any]) -> float:
        name = self.columns.score
        if name is None:
            return 0.0
        value = self._field(number, line, "score")
        number_like = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number_like or not math.isfinite(value):
            raise self._wrong_type(number, name, "a finite number", value)
        return float(value)

    def _group(self, number: int, line: dict[str, Any]) -> str:
        name = self.columns.group
        if name is None:
            return ""
        value = self._field(number, line, "group")
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise self._wrong_type(number, name, "text or an integer", value)
        return str(value)

    def _wrong_type(self, number: int, name: str, wanted: str, value: Any) -> UserError:
        shown = shorten(repr(value), 40)
        return bad_line(self.file, number, f'the field "{name}" must be {wanted}, not {shown}')
