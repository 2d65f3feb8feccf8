"""Runs that an experiment reads: its predecessors, finished or only planned."""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .problems import Problem, Rule, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .experiment import Config
    from .schema import Experiment

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-([0-9a-f]{10})")
_NONE: Mapping[str, Config] = MappingProxyType({})
_PLANNED: ContextVar[Mapping[str, Config]] = ContextVar("planned", default=_NONE)

LEAVES_MODEL = ("contrastive", "mlm", "causal_lm", "sft", "merge")
"""Stages whose runs hold a model."""


@contextmanager
def planned(runs: Mapping[str, Config]) -> Iterator[None]:
    """Take the run directories in `runs` (path -> config) to be there, while the block lasts.

    So that an experiment can be composed, and signed, before what it reads has been computed. The
    mapping may grow inside the block.
    """
    token = _PLANNED.set(runs)
    try:
        yield
    finally:
        _PLANNED.reset(token)


def is_planned(path: str | Path) -> bool:
    """Whether `path` is, or lies in, a run directory that is planned and may not be there yet."""
    full = Path(path).expanduser().resolve()
    return any(str(folder) in _PLANNED.get() for folder in (full, *full.parents))


def run_signature(path: str | Path) -> str | None:
    """The signature of the run whose directory `path` is; None if it is none of ours.

    The name of the directory is taken at its word: it says what was computed in it, whatever has
    happened since to the data or to the config.
    """
    full = Path(path).expanduser().resolve()
    match = _NAME.fullmatch(full.name)
    if match is None:
        return None
    there = str(full) in _PLANNED.get() or (full / "config.yaml").is_file()
    return match[1] if there else None


def enclosing_run(path: str | Path) -> tuple[Path, str] | None:
    """The run directory in which `path` (perhaps a pattern) lies, and the rest of the path."""
    full = Path(path).expanduser().resolve()
    for folder in (full, *full.parents):
        if run_signature(folder) is not None:
            rest = full.relative_to(folder).as_posix()
            return folder, "" if rest == "." else rest
    return None


def config_of(path: str | Path) -> Config:
    """The config of the run in the directory `path`: as planned, else as frozen there.

    Raises:
        UserError: it can't be read.
    """
    full = Path(path).expanduser().resolve()
    found = _PLANNED.get().get(str(full))
    if found is not None:
        return found
    file = full / "config.yaml"
    return _frozen(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _frozen(file: Path, _changed: int) -> Config:
    from .frozen import load

    return load(file)


def readings(config: Experiment) -> list[tuple[str, str]]:
    """What the experiment reads and a run may have written: dotted keys and their paths."""
    from .sign import models

    found = models(config)
    negatives = getattr(config.negatives, "path", None)
    if "negatives" in config.stage.uses and negatives is not None:
        found.append(("negatives.path", negatives))
    if "data" in config.stage.uses:
        found += data_paths(config)
    return found


def data_paths(config: Experiment) -> list[tuple[str, str]]:
    """Paths of the data's files, by dotted key; those of a mixture's sources too."""
    found: list[tuple[str, str]] = []
    for key, option in data_options(config):
        path = getattr(option, "path", None)
        if isinstance(path, str):
            found.append((f"{key}.path", path))
    return found


def data_options(config: Experiment) -> list[tuple[str, Any]]:
    """The data option, or those of a mixture's sources, by dotted key."""
    sources = getattr(config.data, "sources", None)
    if isinstance(sources, dict):
        return [(f"data.sources.{name}.data", source.data) for name, source in sources.items()]
    return [("data", config.data)]


def data_are_planned(config: Experiment) -> bool:
    """Whether files of the data are still to be written, by a run that is planned."""
    return any(is_planned(path) for _, path in data_paths(config))


def predecessors(config: Experiment) -> tuple[Path, ...]:
    """The directories of the runs that must have finished before this experiment can start."""
    found = (enclosing_run(path) for _, path in readings(config))
    return tuple(dict.fromkeys(run for run, _ in filter(None, found)))


@rule()
def runs_leave_what_is_read(config: Config) -> Problem | None:
    """A run can be read for what its stage leaves, a model or mined negatives, and not itself."""
    for key, path in readings(config):
        if run_signature(path) is None:
            continue
        stage = config_of(path).stage.name
        if key == "negatives.path":
            if stage != "mine":
                return Problem(
                    f"negatives.path={path} is a run of stage={stage}, which mines no negatives",
                    "name a run of stage=mine",
                )
        elif key == "backbone.tokenizer" and stage == "tokenizer":
            continue
        elif not key.startswith("data") and stage not in LEAVES_MODEL:
            return Problem(
                f"{key}={path} is a run of stage={stage}, which leaves no model",
                f"name a run of one of these stages: {', '.join(LEAVES_MODEL)}",
            )
    return None


@rule("backbone")
def the_source_run_has_this_architecture(config: Config) -> Problem | None:
    """Weights of a run fit only a backbone of its architecture; better said before it has run."""
    source = config.backbone.source
    if config.backbone.weights != "pretrained" or not source or run_signature(source) is None:
        return None
    run = config_of(source)
    if "backbone" not in run.stage.uses:
        return None  # a merge, which has the architecture of what it merges
    theirs = run.backbone.architecture
    for key, value in config.backbone.architecture.items():
        if key in theirs and theirs[key] != value:
            return Problem(
                f"backbone.source={source} has {key} {theirs[key]}, and backbone "
                f"{config.backbone.name} has {value}",
                f"set backbone={run.backbone.name}, as in that run",
            )
    return None


@rule("backbone")
def the_source_run_has_this_tokenizer(config: Config) -> Problem | None:
    """Weights of a run have learned the numbers that its tokenizer gives; others mean nothing."""
    backbone = config.backbone
    source, tokenizer = backbone.source, backbone.tokenizer
    if backbone.weights != "pretrained" or not source or not tokenizer:
        return None
    run = enclosing_run(source)
    if run is None or _place(tokenizer) == _place(source):
        return None
    theirs = _tokenizer_of(config_of(run[0]))
    if theirs is None or theirs == _place(tokenizer):
        return None
    return Problem(
        f"backbone.tokenizer={tokenizer}, but the weights of backbone.source={source} have "
        f"learned with that run's own",
        "set backbone.tokenizer=null, which takes the run's",
    )


def _tokenizer_of(run: Config) -> str | None:
    """Where a run's tokenizer comes from in the end; None for a merge, which has its models'."""
    if "backbone" not in run.stage.uses:
        return None
    tokenizer, source = run.backbone.tokenizer, run.backbone.source
    if tokenizer or not source:
        return _place(tokenizer) if tokenizer else None
    inside = enclosing_run(source)
    return source if inside is None else _tokenizer_of(config_of(inside[0]))


def _place(name: str) -> str:
    """What tells a tokenizer's source from others: a run's signature, wherever the run lies."""
    inside = enclosing_run(name)
    return name if inside is None else str(run_signature(inside[0]))


@rule("backbone", "routing")
def planned_experts_go_on(config: Config) -> Problem | None:
    """A run that is still to come has the experts that its config says; its files tell later."""
    from .trained import mismatch

    source = config.backbone.source
    if config.backbone.weights != "pretrained" or not source or not is_planned(source):
        return None
    run = config_of(source)
    layers = config.backbone.layers or config.backbone.architecture.get("num_hidden_layers")
    if "routing" not in run.stage.uses or not layers:
        return None
    found = mismatch(run.routing, config.routing, layers)
    return None if found is None else Problem(*found)


RULES: tuple[Rule, ...] = (
    runs_leave_what_is_read,
    the_source_run_has_this_architecture,
    the_source_run_has_this_tokenizer,
    planned_experts_go_on,
)
