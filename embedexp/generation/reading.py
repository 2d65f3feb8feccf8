"""From what a model said to fields that can be used, or the reason why not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import languages

if TYPE_CHECKING:
    from .answers import Answer


class InvalidError(Exception):
    """An answer that cannot be used; the message is the reason that is counted."""


@dataclass(frozen=True)
class Limits:
    """How long a text may be, in characters."""

    shortest: int
    longest: int


def fields(answer: Answer) -> dict[str, Any]:
    """The JSON object in an answer; thoughts, fences and words around it are passed over.

    Raises:
        InvalidError: rejected, refused, filtered, cut off, empty, no JSON object.
    """
    if answer.finish == "rejected":
        raise InvalidError("the endpoint did not take the request")
    if answer.refusal is not None:
        raise InvalidError("refusal")
    if answer.finish == "content_filter":
        raise InvalidError("filtered by the endpoint")
    if answer.finish == "length":
        raise InvalidError("cut off at output_tokens")
    # Templates of thinking models may open the thoughts themselves: only their end is always there.
    text = answer.text.rpartition("</think>")[2]
    if not text.strip():
        raise InvalidError("empty answer")
    decoder, place = json.JSONDecoder(), text.find("{")
    while place >= 0:
        try:
            found, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            place = text.find("{", place + 1)
            continue
        if isinstance(found, dict):
            return found
        place = text.find("{", place + 1)
    raise InvalidError("no JSON object" if "{" in text else "no JSON (a refusal in words?)")


def text(found: dict[str, Any], name: str, limits: Limits, language: str | None = None) -> str:
    """One text of the fields, in the script of its language.

    Raises:
        InvalidError: missing, no text, too short or long, with characters that no text may hold.
    """
    return checked(found.get(name), name, limits, language)


def checked(value: Any, name: str, limits: Limits, language: str | None = None) -> str:
    """A value as a text; see `text`."""
    if value is None:
        raise InvalidError(f"no {name}")
    if not isinstance(value, str):
        raise InvalidError(f"{name} is no text")
    found: str = value.strip()
    if len(found) < limits.shortest:
        raise InvalidError(f"{name} too short")
    if len(found) > limits.longest:
        raise InvalidError(f"{name} too long")
    if any("\ud800" <= c <= "\udfff" or c == "\0" for c in found):
        raise InvalidError(f"{name} has characters that no text may hold")
    if language is not None and not languages.in_script(found, language):
        raise InvalidError(f"{name} in another script than its language's")
    return found


def texts(
    found: dict[str, Any], name: str, limits: Limits, count: int, language: str | None = None
) -> list[str]:
    """`count` texts of a list of the fields; more are left out.

    Raises:
        InvalidError: there are fewer, or one cannot be used.
    """
    values = found.get(name)
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list) or len(values) < count:
        raise InvalidError(f"fewer {name} than asked for")
    return [checked(value, name, limits, language) for value in values[:count]]


def same(a: str, b: str) -> bool:
    """Whether two texts differ in case and space only."""
    return normal(a) == normal(b)


def normal(value: str) -> str:
    """A text without differences in case and space."""
    return " ".join(value.casefold().split())
