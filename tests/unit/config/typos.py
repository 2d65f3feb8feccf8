"""Valid overrides taken from schema and conf/, and typos of them, for tests of the errors."""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_origin

from embedexp.config import tree
from embedexp.config.schema import GROUPS, Experiment, Option
from embedexp.config.sources import option_files, read_yaml


@dataclass(frozen=True)
class Spot:
    """One word of a valid override: what stands around it, and what else could stand there."""

    context: tuple[str, ...]  # overrides that make this one valid
    before: str
    word: str
    after: str
    valid: frozenset[str]


def spots() -> Iterator[Spot]:
    """Every group name, option name, dotted key segment and enumerated value."""
    roots = frozenset([*Experiment.model_fields, "hydra"])
    for group in GROUPS:
        options = frozenset(option_files(group))
        for option in sorted(options):
            yield Spot((), "", group, f"={option}", roots)
            yield Spot((), f"{group}=", option, "", options)
            cls = tree.option_class(group, option)
            assert cls is not None
            context = (f"{group}={option}", *_required(group, option))
            yield from _keys(context, [group], cls, roots)
    yield from _keys((), [], Experiment, roots, skip=GROUPS)


def _required(group: str, option: str) -> list[str]:
    """Overrides that give a value to what the option leaves to the user."""
    cls = tree.option_class(group, option)
    assert cls is not None
    return [
        f"{group}.{key}="
        + ("[a,b]" if get_origin(cls.model_fields[key].annotation) is list else "a")
        for key, value in read_yaml(option_files(group)[option]).items()
        if value == "???"
    ]


def _keys(
    context: tuple[str, ...],
    parents: list[str],
    cls: type[Option],
    roots: frozenset[str],
    skip: tuple[str, ...] = (),
) -> Iterator[Spot]:
    for name, info in cls.model_fields.items():
        if name in skip or (parents and name == "name"):
            continue
        siblings = frozenset(cls.model_fields)
        models = [m for m in tree.union_members(info.annotation) if tree.is_model(m)]
        if models:
            yield from _keys(context, [*parents, name], models[0], roots)
            continue
        path = [*parents, name]
        before = f"{'.'.join(parents)}." if parents else ""
        yield Spot(context, before, name, "=1", siblings)
        for depth, parent in enumerate(parents):
            start = "".join(f"{p}." for p in path[:depth])
            end = "".join(f".{p}" for p in path[depth + 1 :]) + "=1"
            known = roots if depth == 0 else frozenset([parent])
            yield Spot(context, start, parent, end, known)
        choices = tree.literals(info.annotation)
        in_list = get_origin(info.annotation) is list
        for choice in choices:
            opening, closing = ("[", "]") if in_list else ("", "")
            key = f"{before}{name}={opening}"
            yield Spot(context, key, choice, closing, frozenset(choices))


def typo(word: str, draw: random.Random) -> str:
    """The word with one letter inserted, deleted, replaced or swapped with its neighbour."""
    at = draw.randrange(len(word))
    letter = draw.choice(string.ascii_lowercase)
    kind = draw.choice(["insert", "delete", "replace", "swap"])
    if kind == "insert":
        return word[:at] + letter + word[at:]
    if kind == "delete":
        return word[:at] + word[at + 1 :]
    if kind == "replace":
        return word[:at] + letter + word[at + 1 :]
    at = min(at, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def typos(count: int, seed: int) -> list[tuple[Spot, list[str]]]:
    """`count` different typos, each with the overrides that contain it."""
    draw = random.Random(seed)
    places = list(spots())
    found: dict[str, tuple[Spot, list[str]]] = {}
    while len(found) < count:
        spot = draw.choice(places)
        wrong = typo(spot.word, draw)
        if not wrong or wrong in spot.valid or wrong[0] in string.digits:
            continue
        if len(spot.word) == 1:  # nothing of it may be left to recognise
            continue
        override = f"{spot.before}{wrong}{spot.after}"
        found.setdefault(override, (spot, [*spot.context, override]))
    return list(found.values())
