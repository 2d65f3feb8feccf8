"""The keys in which two experiments differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import shorten
from .flat import flatten

if TYPE_CHECKING:
    from .experiment import Config

Rows = list[tuple[str, str, str]]
ABSENT = object()


def differences(a: Config, b: Config) -> tuple[Rows, Rows]:
    """(dotted key, value in a, value in b) of keys that count for the signature, and of others.

    Content that is hashed (data, mined files) appears as `fingerprints.*`.
    """
    from .sign import identity

    counted = _rows(flatten(identity(a)), flatten(identity(b)))
    seen = {key for key, _, _ in counted} | set(flatten(identity(a))) | set(flatten(identity(b)))
    whole = _rows(flatten(a.to_dict()), flatten(b.to_dict()))
    marks = ("provenance", "demo")  # which speak of keys that differ themselves
    rows = [row for row in whole if row[0].partition(".")[0] not in marks]
    return counted, [row for row in rows if row[0] not in seen]


def _rows(a: dict[str, Any], b: dict[str, Any]) -> Rows:
    rows: Rows = []
    for key in dict.fromkeys([*a, *b]):
        first, second = a.get(key, ABSENT), b.get(key, ABSENT)
        if first != second:
            rows.append((key, _cell(first), _cell(second)))
    return rows


def _cell(value: Any) -> str:
    from .show import spell

    return "-" if value is ABSENT else shorten(spell(value), 40)
