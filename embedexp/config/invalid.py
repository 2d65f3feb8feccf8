"""What the schema refuses, in words: wrong type, out of range, unknown value, unknown key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import tree
from .errors import UserError, closest, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lint import Situation


def invalid(
    exc: Any, origin: Callable[[str], str | None], situation: Situation | None = None
) -> UserError:
    """The first thing that a `pydantic.ValidationError` says; what was typed comes first.

    `origin` tells where the value of a dotted key comes from.
    """
    found = []
    for error in exc.errors(include_url=False):
        parts, info = tree.locate(error["loc"])
        place = origin(".".join(parts))
        found.append((".".join(parts), info, error, place))
    typed = [each for each in found if each[3] and each[3].startswith("in the override")]
    dotted, info, error, place = (typed or found)[0]
    # A value that others take over by interpolation is wrong once.
    others = len({each[0] for each in found if each[2]["input"] != error["input"]} - {dotted})
    more = f" (and {others} more)" if others else ""
    kind, given = error["type"], error["input"]
    if kind == "extra_forbidden":
        return _extra(dotted, place, more)
    if kind == "missing" and isinstance(error["loc"][-1], str):
        return _missing(dotted, info, place, situation)
    if kind.startswith("union_tag"):
        group = dotted.split(".")[0]
        key = dotted if dotted.endswith(f".{group}") else group  # in a mixture, or on its own
        tag = given.get("name") if isinstance(given, dict) else given
        # Not all options of a group may stand in another one: a mixture is no source of one.
        tags = str(error.get("ctx", {}).get("expected_tags", ""))
        allowed = [name for name in tree.classes(group) if not tags or f"'{name}'" in tags]
        near = closest(str(tag), allowed)
        names = ", ".join(allowed)
        hint = (
            f"did you mean {' or '.join(near)}? it is one of {names}" if near else f"one of {names}"
        )
        return UserError(f"{key}.name={shorten(tag, 40)} is no option", where=place, hint=hint)
    if info is None:
        return UserError(f"{dotted}: {error['msg']}{more}", where=place)
    return _wrong_value(dotted, info, error, place, more)


def _wrong_value(dotted: str, info: Any, error: Any, place: str | None, more: str) -> UserError:
    given, kind = error["input"], error["type"]
    inside = isinstance(error["loc"][-1], int)  # an item of a list
    what = f"{dotted} holds {_shown(given)}" if inside else f"{dotted}={_shown(given)}"
    if kind == "missing":
        what = f"{dotted}={_shown(given)}"
    if kind == "string_pattern_mismatch":
        return UserError(
            f"{what} has characters that it must not have{more}",
            where=place,
            hint=f"it must match {error['ctx']['pattern']} ({info.description})",
        )
    if kind in ("too_short", "too_long"):
        return UserError(
            f"{what}: {error['msg'].lower()}{more}", where=place, hint=info.description
        )
    if kind == "finite_number":
        return UserError(f"{what} is no finite number{more}", where=place, hint=info.description)
    choices = tree.literals(info.annotation)
    hint = info.description
    if isinstance(given, str) and choices:
        near = closest(given, choices)
        what = f"{dotted} does not know {shorten(given, 40)}"
        takes = f"it takes {tree.expectation(info)}"
        hint = f"did you mean {' or '.join(near)}? {takes}" if near else takes
        return UserError(f"{what}{more}", where=place, hint=hint)
    if isinstance(given, float) and given.is_integer() and kind == "int_type":
        hint = f"write it as a whole number: {dotted}={int(given)}"
    elif kind == "bool_type":
        hint = "write true or false"
    return UserError(f"{what}, but it takes {tree.expectation(info)}{more}", where=place, hint=hint)


def _extra(dotted: str, place: str | None, more: str) -> UserError:
    parent, _, key = dotted.rpartition(".")
    siblings = [
        name.removeprefix(f"{parent}." if parent else "").split(".")[0]
        for name in tree.dotted_keys()
        if name.startswith(f"{parent}." if parent else "")
    ]
    near = closest(key, siblings)
    names = [f"{parent}.{name}" if parent else name for name in near]
    hint = f"did you mean {' or '.join(names)}?" if near else "take it out"
    where = f"{parent or 'the experiment'} has no key {shorten(key, 40)}{more}"
    return UserError(where, where=place, hint=hint)


def _missing(dotted: str, info: Any, place: str | None, situation: Situation | None) -> UserError:
    from .locations import short

    if place is None and situation is not None:
        group = dotted.split(".")[0]
        files = [s.path for s in situation.sources if s.package == group]
        place = f"in {short(files[-1])}" if files else None
    means = f": {info.description}" if info is not None and info.description else ""
    takes = f" ({tree.expectation(info)})" if info is not None else ""
    return UserError(f"{dotted} is missing{means}", where=place, hint=f"give it a value{takes}")


def _shown(value: Any) -> str:
    """A value as YAML spells it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return shorten(value, 60)
