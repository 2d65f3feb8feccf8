"""Which benchmarks and tasks mteb has, known without importing it.

The names are those of one version of mteb, written down by `embedexp.evaluation.names`. With
another version installed, a name that is not among them is left to mteb, when the run starts.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .schema.evaluation import MtebEvaluation

PATH = Path(__file__).with_name("mteb_names.json")

USUAL_BENCHMARKS: Mapping[str, str] = {
    "C-MTEB": "MTEB(cmn, v1)",
    "MTEB v1": "MTEB(eng, v1)",
    "MTEB(classic)": "MTEB(eng, v1)",
    "MTEB(English, v1)": "MTEB(eng, v1)",
    "MTEB v2": "MTEB(eng, v2)",
    "MTEB(English, v2)": "MTEB(eng, v2)",
    "MTEB(Chinese, v1)": "MTEB(cmn, v1)",
}
"""What people and papers call benchmarks, beside mteb's own names and aliases."""

USUAL_TASKS: Mapping[str, tuple[str, ...]] = {
    "MIRACL": ("MIRACLRetrieval",),
    "MKQA": ("MKQARetrieval",),
    "Mr. TyDi": ("MrTidyRetrieval",),
}
"""Benchmarks of papers that are one task of mteb's, with a subset per language."""

SIDES = ("query", "document")
"""mteb's names of the two sides of retrieval."""


class Task(NamedTuple):
    """A task that is asked for, and the subsets of it; none named means mteb's own choice."""

    name: str
    subsets: tuple[str, ...]


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return content


def is_complete() -> bool:
    """Whether the installed mteb has exactly these names."""
    try:
        return bool(version("mteb") == _content()["mteb"])
    except PackageNotFoundError:
        return True


@cache
def task_types() -> dict[str, str]:
    """The type of each text task, by its name."""
    return {name: kind for kind, names in _content()["tasks"].items() for name in names}


def types() -> list[str]:
    """The types of text tasks."""
    return list(_content()["tasks"])


def benchmark_names() -> list[str]:
    """Every name under which a benchmark is known."""
    content = _content()
    return [*content["benchmarks"], *content["aliases"], *USUAL_BENCHMARKS, *USUAL_TASKS]


def canonical(benchmark: str) -> str:
    """The name by mteb of a benchmark; a name that is unknown comes back as it is."""
    name = USUAL_BENCHMARKS.get(benchmark, benchmark)
    found: str = _content()["aliases"].get(name, name)
    return found


def tasks_of(benchmark: str) -> Sequence[str] | None:
    """The tasks of a benchmark, by any of its names; None if it is unknown."""
    if benchmark in USUAL_TASKS:
        return USUAL_TASKS[benchmark]
    found: list[str] | None = _content()["benchmarks"].get(canonical(benchmark))
    return found


def parse(task: str) -> Task:
    """A task's name and the subsets that follow it in brackets: `STS22[en,es]`."""
    name, bracket, rest = task.partition("[")
    if not bracket or not rest.endswith("]"):
        return Task(task, ())
    return Task(name, tuple(part.strip() for part in rest[:-1].split(",")))


def selected(option: MtebEvaluation) -> list[str]:
    """The tasks that an option asks for, each once; what languages leave out is mteb's to say."""
    names = [name for each in option.benchmarks for name in tasks_of(each) or (each,)]
    names += [parse(task).name for task in option.tasks]
    return [
        name
        for name in dict.fromkeys(names)
        if name not in option.exclude
        and (not option.types or task_types().get(name) in (None, *option.types))
    ]
