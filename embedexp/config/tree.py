"""The schema as a tree: which keys there are, what they take, and how that reads in words."""

from __future__ import annotations

import types
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from .schema import Experiment, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_NAME = "*"
"""Stands for the names of a group whose options are all of one shape (backbone, training)."""


@cache
def classes(group: str) -> dict[str, Any]:
    """The schema class of each option of a group, by the option's name."""
    annotation = Experiment.model_fields[group].annotation
    found: dict[str, Any] = {}
    for cls in union_members(annotation):
        names = literals(cls.model_fields["name"].annotation)
        found |= dict.fromkeys(names or [ANY_NAME], cls)
    return found


def option_class(group: str, name: str) -> type[Option] | None:
    """The schema class of one option, or None if there is no such option."""
    return classes(group).get(name) or classes(group).get(ANY_NAME)


def union_members(annotation: Any) -> list[Any]:
    """The alternatives of an annotation, without None; the annotation itself if it is no union."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [arg for arg in get_args(annotation) if arg is not type(None)]
    return [annotation]


def literals(annotation: Any) -> list[str]:
    """Every enumerated text in an annotation, in order, however deep it is."""
    if get_origin(annotation) is Literal:
        return [value for value in get_args(annotation) if isinstance(value, str)]
    found = [value for arg in get_args(annotation) for value in literals(arg)]
    return list(dict.fromkeys(found))


def is_model(annotation: Any) -> bool:
    """Whether the annotation is a schema class."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def below(annotation: Any, part: str) -> list[FieldInfo | None]:
    """What can stand at key `part` below a value of this annotation.

    A field for each alternative that has it; None for an entry of a free mapping, whose own keys
    `entries` gives. Empty where there is no such key.
    """
    found: list[FieldInfo | None] = []
    for member in union_members(annotation):
        if is_model(member):
            if part in member.model_fields:
                found.append(member.model_fields[part])
        elif get_origin(member) is dict:
            found.append(None)
    return found


def entries(annotation: Any) -> Any:
    """The schema class of what a mapping of free names holds, or None if it may hold anything."""
    for member in union_members(annotation):
        if get_origin(member) is dict and is_model(get_args(member)[1]):
            return get_args(member)[1]
    return None


def keys_below(annotation: Any) -> list[str]:
    """Names of the keys that the schema gives to a value of this annotation."""
    found = [
        name
        for member in union_members(annotation)
        if is_model(member)
        for name in member.model_fields
    ]
    return list(dict.fromkeys(found))


@cache
def dotted_keys() -> dict[str, FieldInfo]:
    """Every key of the schema, over all options, as dotted name -> field; leaves only."""
    return dict(_leaves(Experiment, ""))


def _leaves(cls: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in cls.model_fields.items():
        models = [member for member in union_members(info.annotation) if is_model(member)]
        for model in models:
            yield from _leaves(model, f"{prefix}{name}.")
        if not models:
            yield f"{prefix}{name}", info


def locate(location: tuple[Any, ...]) -> tuple[list[str], FieldInfo | None]:
    """Key and field of an error that pydantic found at `location`.

    Pydantic puts names of union members among the keys; they are left out, and so are the indices
    of lists.
    """
    annotation: Any = Experiment
    info: FieldInfo | None = None
    parts: list[str] = []
    for step in location:
        members = union_members(annotation)
        fields = [member.model_fields for member in members if is_model(member)]
        # First: a key of one option may be called as another option is.
        if len(fields) > 1 and step in literals_of_names(members):
            annotation = next(
                m for m in members if step in literals(m.model_fields["name"].annotation)
            )
        elif any(step in keys for keys in fields):
            info = next(keys[step] for keys in fields if step in keys)
            annotation = info.annotation
            parts.append(str(step))
        elif any(get_origin(member) is dict for member in members) and isinstance(step, str):
            parts.append(step)
            annotation = entries(annotation) or Any
        elif fields:  # a key that the schema does not have
            parts.append(str(step))
            return parts, None
        else:
            break
    return parts, info


def literals_of_names(members: list[Any]) -> list[str]:
    """Names of the options among the members of a discriminated union."""
    return [
        name for m in members if is_model(m) for name in literals(m.model_fields["name"].annotation)
    ]


def expectation(info: FieldInfo) -> str:
    """What a field takes, in words: `a whole number of at least 1, or null`."""
    words = _words(info.annotation, info.metadata)
    unit = info.json_schema_extra.get("unit") if isinstance(info.json_schema_extra, dict) else None
    return f"{words} ({unit})" if unit else words


def _words(annotation: Any, metadata: list[Any]) -> str:
    members = union_members(annotation)
    texts = [_one(member, metadata) for member in members]
    if len(members) == 1 and annotation is not members[0]:
        texts.append("null")
    return ", or ".join(texts)


def _one(annotation: Any, metadata: list[Any]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _one(arguments[0], [*metadata, *annotation.__metadata__])
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is list:
        return f"a list, each {_one(arguments[0], [])}"
    if origin is tuple:
        return f"a list of {len(arguments)}, each {_one(arguments[0], [])}"
    if is_model(annotation):
        return "a mapping with the keys " + ", ".join(annotation.model_fields)
    plain = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    return plain.get(annotation, "a mapping") + _limits(metadata)


def _limits(metadata: list[Any]) -> str:
    wording = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    found = [
        f"{words} {getattr(limit, name):g}"
        for limit in _flat(metadata)
        for name, words in wording.items()
        if getattr(limit, name, None) is not None
    ]
    return f", {' and '.join(found)}" if found else ""


def _flat(metadata: list[Any]) -> list[Any]:
    return [item for m in metadata for item in (m.metadata if isinstance(m, FieldInfo) else [m])]
