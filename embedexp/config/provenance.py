"""Where values come from: a paper, its code or us; and which of them no longer are the paper's.

A mark is one word, and what there is to say of it after a semicolon: `published; code: cosine`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .flat import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKS = ("published", "code", "ours", "changed")
"""In the paper, in its official code alone, chosen here, or set to something else."""

_ABSENT = object()


def split(mark: str) -> tuple[str, str]:
    """The word of a mark, and the remark that follows it."""
    word, _, remark = mark.partition(";")
    return word, remark.strip()


def judged(experiment: dict[str, Any], paper: dict[str, Any]) -> dict[str, str]:
    """The marks of an experiment, those of values that differ from the paper's own as changed.

    `paper` is what the paper's file composes to by itself, at full scale. A marked key that the
    experiment no longer has, because another option took its group's place, marks the group.
    """
    marks: Mapping[str, str] = experiment["provenance"]
    found: dict[str, str] = {}
    for dotted, mark in marks.items():
        now, then = at(experiment, dotted), at(paper, dotted)
        if now is _ABSENT and then is not _ABSENT:
            group = dotted.partition(".")[0]
            found[group] = f"changed; {_option(paper.get(group)) or 'another option'} in the paper"
        elif now == then or then is _ABSENT or mark != paper.get("provenance", {}).get(dotted):
            found.setdefault(dotted, mark)
        else:
            found[dotted] = f"changed; {_was(then, split(mark)[0])}"
    return found


def at(nested: Any, dotted: str) -> Any:
    """The value or section at a dotted key, or a sentinel that equals nothing else."""
    for part in dotted.split("."):
        if not isinstance(nested, dict) or part not in nested:
            return _ABSENT
        nested = nested[part]
    return nested


def _was(value: Any, word: str) -> str:
    from .errors import shorten
    from .show import spell

    if isinstance(value, dict):
        named = _option(value)
        return f"{word}: {named}" if named else f"{word}: other values"
    return f"{word}: {shorten(spell(value), 60)}"


def _option(section: Any) -> str:
    return str(section.get("name", "")) if isinstance(section, dict) else ""


def rows(marks: Mapping[str, str], experiment: dict[str, Any]) -> list[tuple[str, str]]:
    """(word, `key = value  (remark)`) of each mark, for people."""
    from .show import spell

    flat = flatten(experiment)
    found: list[tuple[str, str]] = []
    for dotted, mark in marks.items():
        word, remark = split(mark)
        if dotted in flat:
            text = f"{dotted} = {spell(flat[dotted])}"
        elif dotted in experiment:  # a whole group is told by its option
            text = f"{dotted} = {_option(experiment[dotted])}"
        else:  # a section of one stands above in words
            text = dotted
        found.append((word, f"{text}  ({remark})" if remark else text))
    return found
